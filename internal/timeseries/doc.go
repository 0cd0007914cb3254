// Package timeseries defines time series collections and the rules that follow: the options and their allowed changes, the rounding of
// times, the names of a bucket's fields, the encoding of positions, and the unpacking of a bucket into its measurements.
//
// It is pure: no context, no clock, no logger, no goroutine. Every rule on which the writer of buckets and their readers must agree
// stands here, once.
//
//	options.go      a collection's options, their changes, rounding; the document that keeps them; the largest size of a bucket
//	names.go        names and paths of a bucket's fields, names of a time series' collections; bucketid.go: a bucket's _id
//	position.go     the place of a measurement in its source, the encoding of many; positionset.go: a set of positions (D)
//	document.go     conditions that find documents by key or by source, and the indexes for them
//	segment.go      the metas of segments, which hold many series, and the conditions that show segments or buckets
//	bloom.go        which metas a segment may have
//	content.go      the control of a bucket, computed from its columns: sizes, minimum and maximum of each field
//	unpack.go       a bucket's measurements; bucket.go: checks of a bucket, and contradictions in it
//	compare.go      the order of BSON values; number.go: the order of numbers
//	bucketfilter.go a filter on measurements as a filter on buckets that may hold matches
//	query.go        a query on measurements as a query on buckets, also $expr; update.go: the same for updates and deletes;
//	                index.go, indexoptions.go: for indexes
//	userindex.go    an index on buckets as an index on measurements; advice.go, filter.go: the index that serves a filter
//	normal.go       the form in which metas are stored
//	bson.go         building documents from others, and walking documents; error.go: MongoDB's codes for refusals
package timeseries
