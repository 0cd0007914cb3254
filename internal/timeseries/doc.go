// Package timeseries holds what a time series collection is and the rules that follow from it: its options and how they
// may change, the rounding of times, the names of a bucket's fields, the encoding of positions, and the way back from a
// bucket to its measurements.
//
// It is pure: no context, no clock, no logger, no goroutine. Everything that must agree between the writer of buckets
// and their readers stands here, once.
//
//	options.go      a collection's options, how they may change, rounding; limits.go: how large a bucket may be
//	definition.go   the document that keeps the options
//	collections.go  names that MongoDB allows, names of a time series' collections
//	names.go        names and paths of a bucket's fields; bucketid.go: its _id
//	position.go     where a measurement came from; codec.go: many, encoded; positionset.go: many, as a set (D)
//	document.go     which documents a query finds: by key, by source; the indexes for that
//	segment.go      documents of many series: where these lie, what is shown; segment.go: other metas, or fewer measurements
//	content.go      what control says of columns, made of them; extreme.go: the minimum or maximum of a field
//	unpack.go       a bucket's measurements; bucket.go: what is checked of it; mismatch.go: how it contradicts itself
//	compare.go      the order of BSON values; number.go, decimal.go: that of numbers
//	bucketfilter.go which buckets may hold what a filter finds
//	query.go        a query on measurements as one on buckets; expression.go: the same of $expr; update.go, index.go, indexoptions.go: the same of these
//	userindex.go    an index on buckets as one on measurements; advice.go, filter.go: which index serves a filter
//	normal.go       the form in which metas are stored
//	build.go        building documents of others; cursor.go: walking them; error.go: MongoDB's codes for refusals
package timeseries
