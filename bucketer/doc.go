// Package bucketer is the bucket catalog of one partition. It decides which bucket a measurement belongs to, when a bucket is
// full and what is written. It also decides what the database must be asked before a bucket is opened. It decides as MongoDB's
// own catalog for time series collections does.
//
// The package is pure, and a catalog has one owner: no context, no clock, no logger, no goroutine, no lock. Its decisions
// depend only on the measurements and the answers that it was given, in their order.
//
// # Where things are
//
//	catalog.go    the catalog: Insert, checks of measurements, pending ones, the offset a commit must not pass
//	lookup.go     questions to the database, also ahead, and when one cannot find anything; write.go: writes and their outcomes;
//	              stats.go: counters
//	place.go      which bucket a measurement goes into, and whether it still takes it; kinds.go: several open buckets of a series
//	parking.go    measurements that wait for a look-up; line.go: their order
//	resume.go     placing them after the answer; reopen.go, stored.go: buckets made of an answer
//	flush.go      Prepare; finish.go: Finish, and what happens after writes that were not applied
//	encode.go     a bucket's next write; document.go: as an insert; delta.go: as an update; alike.go: columns of measurements with one layout
//	segment.go    few measurements of many series, written together; segmentorder.go: which of them share a document;
//	              keptout.go: series kept out of segments; compact.go: buckets made of segments
//	forms.go      parts that all writes share; append.go: appending BSON; arena.go: the memory of a flush
//	bucket.go     one bucket; series.go: one series, and its buckets that are no longer open; table.go: all series
//	rows.go       measurements that are not written yet
//	shape.go      the fields of buckets, and measurements that look like the last one; shapes.go: shared shapes; schema.go: types
//	              of fields
//	bounds.go     control.min and control.max, and their memory; finder.go: finding members of objects by name
//	archive.go    buckets of which only the _id is known; archivetree.go: finding them by their times
//	memory.go     accounting of memory, and freeing it; clear.go: forgetting series
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
