// Package bucketer is the bucket catalog of one partition. It decides which bucket a measurement belongs to, when a bucket is
// full and what is written. It also decides what the database must be asked before a bucket is opened. It decides as MongoDB's
// own catalog for time series collections does.
//
// The package is pure, and a catalog has one owner: no context, no clock, no logger, no goroutine, no lock. Its decisions
// depend only on the measurements and the answers that it was given, in their order.
//
// # Where things are
//
//	catalog.go       the catalog: Insert, checks of measurements, pending ones, the offset a commit must not pass
//	place.go         which bucket a measurement goes into, and whether it still takes it
//	series.go        one series: its open buckets, and its buckets that are no longer open; the table of all series
//	bucket.go        one bucket; the list of idle buckets
//	archive.go       buckets of which only the _id is known, found by their times
//	lookup.go        questions to the database, also ahead, and when one cannot find anything; measurements that wait for answers
//	reopen.go        Load: buckets made of answers, and the waiting measurements placed
//	flush.go         writes and their outcomes; Prepare
//	finish.go        Finish, and what happens after writes that were not applied
//	encode.go        what a bucket's next write has: columns or places of values, bounds, positions
//	document.go      the bytes of a write: an insert, an update and its filter, and the parts that all writes share
//	segment.go       few measurements of many series, written together
//	segmentorder.go  which series share a segment
//	compact.go       buckets made of segments; series kept out of segments
//	rows.go          measurements that are not written yet, and the order of those that wait for a look-up
//	shape.go         the fields of buckets, shared; measurements that look like the last one
//	schema.go        types of fields
//	bounds.go        control.min and control.max; finding members of objects by name
//	pools.go         memory that is used again: of flushes, of rows, of bounds
//	memory.go        accounting of memory, and freeing it; forgetting series
//	stats.go         counters
//
// # What is not obvious
//
//   - Measurements wait row by row, as they came. Columns and bounds are made only with a write. So a measurement that is taken
//     back leaves no trace, and a bucket from which measurements were taken back is always forgotten.
//   - Of a written bucket only counts, bounds and shape stay in memory, but neither its columns nor its positions.
//   - Buckets with the same fields share one shape, so a schema is mostly compared by names and types that are already in the
//     processor's cache.
//   - The cache that buckets share (Limits.CacheBytes) is this partition's share. MongoDB counts the buckets of all collections of
//     a process. Here the buckets of all partitions belong to many processes, and no process knows them all.
//   - Look-ups ahead change only when the database is asked. Their answers serve measurements placed in the same Load, which find
//     what they would have been told had they asked themselves.
//   - A series has an open bucket for each combination of types that its values take in turn, up to a bound. MongoDB has one open
//     bucket, and closes it at each change. All open buckets but the last used one are in series.more, which most series lack.
//   - Comparison is binary. Collations of a collection are ignored, both in bounds and in series.
package bucketer
