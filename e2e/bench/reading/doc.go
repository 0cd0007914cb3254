// Package reading measures what queries cost the server: of the same buckets in a time series of MongoDB's own, through the view,
// and by package reader.
//
//	store.go    the buckets, stored twice
//	segments.go measurements that are not in buckets yet
//	ways.go     the queries, in each way
//	totals.go   rollups: building them, and totals from rows and from measurements
//	measure.go  their processor time and duration; the table
package reading
