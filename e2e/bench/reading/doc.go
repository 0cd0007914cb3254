// Package reading measures what queries cost the server. It reads the same buckets from a native time series of MongoDB, through
// the view, and with package reader.
//
//	store.go    the buckets, stored twice
//	segments.go measurements that are still in segments
//	ways.go     the queries, in each way
//	totals.go   rollups: building them, and totals from rows and from measurements
//	measure.go  processor time and duration of queries; the table
package reading
