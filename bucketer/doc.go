// Package bucketer is the bucket catalog of one partition: which bucket a measurement belongs to, when a bucket is full,
// what of it is written, and what must be asked of the database before a bucket is opened. It takes the decisions of
// MongoDB's own catalog for time series collections.
//
// It is pure and has one owner: no context, no clock, no logger, no goroutine, no lock. What it decides depends on the
// measurements and the answers it was given, in their order, and on nothing else.
//
// # Where things are
//
//	catalog.go    the catalog: Insert, what waits, what a commit must not pass; validate.go: what it takes
//	lookup.go     what is asked of the database; write.go: what is written, and what became of it; stats.go: what was done
//	place.go      which bucket a measurement goes into; decide.go: whether a bucket still takes it; kinds.go: several open
//	              ones of a series
//	parking.go    measurements that wait for a look-up, line.go: in their order; ahead.go: what they will ask for;
//	              unseen.go: when there is nothing to find
//	resume.go     how they go on; reopen.go, stored.go: buckets made of an answer
//	flush.go      Prepare; finish.go: Finish, and what becomes of writes that were not applied
//	encode.go     a bucket's next write: document.go an insert, delta.go an update; alike.go: columns of what is laid out alike
//	segment.go    measurements of series that have few, written together; segmentorder.go: which of them in one document;
//	              keptout.go: series that are kept out of them; compact.go: buckets made of these documents
//	forms.go      what all writes have in common; append.go: appending; arena.go: the memory of a flush
//	bucket.go     one bucket; series.go: one series; table.go: all; rolled.go: its buckets that are no longer open
//	rows.go       measurements that are not written yet; pool.go: the memory of bounds
//	shape.go      the fields of buckets; shapes.go: those they share; schema.go: their types; element.go: ranks of types
//	layout.go     measurements that look like the last one
//	bounds.go     control.min and control.max; finder.go, spread.go: members of objects by name
//	archive.go    buckets of which only the _id is known, archivetree.go: by their times
//	expire.go     forgetting for the sake of memory; clear.go: on demand; memory.go: accounting
//
// # What is not obvious
//
//   - Measurements wait as they came, row by row. Columns and bounds are made of them only when a write is: so a
//     measurement that is taken back has left no trace, and a bucket that is taken back from is always forgotten.
//   - A written bucket is counts, bounds and shape. Its columns are not kept, and neither are its positions.
//   - Buckets with the same fields share one shape, so a schema is mostly compared by names and types that are in the
//     processor's cache already.
//   - The cache that buckets share (Limits.CacheBytes) is the share of this partition. MongoDB counts the buckets of all
//     collections of a process; here nobody knows the buckets of all partitions, which belong to many processes.
//   - Look-ups ahead change only the asking: the answers serve measurements placed in the same Load, which then find what
//     they would have been told had they asked.
//   - A series has an open bucket for each combination of types that its values have by turns, up to a bound. MongoDB has
//     one, and closes it at each change. All but the one used last are in series.more, which most series do not have.
//   - Comparison is binary: collations of a collection are not taken into account, neither in bounds nor in series.
package bucketer
