// Package timeseries holds what a time series collection is and the rules that follow from it: its options and how they
// may change, the rounding of times, the names of a bucket's fields, the encoding of positions, and the way back from a
// bucket to its measurements.
//
// It is pure: no context, no clock, no logger, no goroutine. Everything that must agree between the writer of buckets
// and their readers stands here, once.
package timeseries
