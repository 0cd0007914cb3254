// Package timeseries defines time series collections and the rules that follow: the options and their allowed changes, the
// rounding of times, the names of a bucket's fields, the encoding of positions, and the unpacking of a bucket into its
// measurements.
//
// It is pure: no context, no clock, no logger, no goroutine. Every rule on which the writer of buckets and their readers must agree
// stands here, once.
//
//	options.go   a collection's options, their changes, rounding; the document that keeps them; the largest size of a bucket; Error
//	names.go     names and paths of a bucket's fields, names of a time series' collections, a bucket's _id;
//	             conditions that find documents by key or by source, and the indexes for them
//	position.go  the place of a measurement in its source, the encoding of many; a set of positions
//	segment.go   the metas of segments, which hold many series; the conditions that show segments or buckets;
//	             the Bloom filter that says which metas a segment may have
//	content.go   the control of a bucket, computed from its columns: sizes, minimum and maximum of each field
//	bucket.go    the checks of a bucket, and contradictions in it; unpack.go: its measurements
//	compare.go   the order of BSON values; number.go: the order of numbers
//	query.go     a query on measurements as a query on buckets, also $expr; the same for updates, deletes, and filters of any field
//	index.go     an index on measurements as an index on buckets, and back; advice.go: the index that serves a filter
//	bson.go      building documents from others, and walking documents; the form in which metas are stored
package timeseries
