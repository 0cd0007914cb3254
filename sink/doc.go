// Package sink keeps buckets in MongoDB: it claims partitions, reads which positions are stored, sends writes, finds out what became of
// unanswered ones, looks stored buckets up, compacts segments, and stores the rows of rollups. Package collection has set the time series up.
//
// Every method is one attempt that says exactly what is known afterwards; retries, waits and back-off are the caller's, but
// for the long read of Buckets.Find. Nothing here decides what a bucket holds (package bucketer) or when it is written (package
// pipeline).
//
// The way of a write: Partition.Send splits writes into bulk calls on a Collection of package mongodb, which sends each once; the
// connection under it asks the lease again before every system call that sends of it. Answers are classified by closed lists, and
// what they leave unknown is read back behind a fence.
//
// The partition protocol knows MongoDB only through Collection and Session, so that it runs unchanged against a model.
//
// The files:
//
//	a partition     store.go, partition.go (a time series, one source partition of it, reading its claim)
//	                claim.go (claiming, fencing, releasing; how many partitions the topic had at first)
//	                stored.go (D, and of which time the newest bucket is)
//	                send.go, classify.go, resolve.go (writing, what the answers mean, reading back)
//	                lookup.go, lookupshortlist.go (buckets to reopen: the queries, the choice)
//	                metrics.go
//	segments        compaction.go (segments compacted into buckets, step by step), compactionask.go (asking for that)
//	rollups         rollup.go (claims and watermarks), rolluprows.go (what a keeper reads and stores), rollupnotes.go (edits that rows follow)
//	contents        partitions.go (whose claims there are), holdings.go (what is stored of each partition), scan.go (buckets, for verifying)
//	                notes.go (which positions edits deleted or changed)
package sink
