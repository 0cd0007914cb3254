// Package sink keeps buckets in MongoDB. It claims partitions, reads the stored positions, sends writes and finds out the
// outcomes of unanswered ones. It also looks stored buckets up, compacts segments, and stores the rows of rollups. Package
// collection sets the time series up before.
//
// Every method is one attempt that says exactly what is known afterwards. Retries, waits and back-off are the caller's, except
// in the long read of Buckets.Find. This package does not decide what a bucket holds (package bucketer) or when it is written
// (package pipeline).
//
// A write takes this way: Partition.Send splits writes into bulk calls on a Collection of package mongodb, which sends each
// once. The connection below it checks the lease before every system call that sends part of a write. Answers are classified by
// closed lists. Writes with an unknown outcome are read back behind a fence.
//
// The partition protocol knows MongoDB only through Collection and Session, so it runs unchanged against a model.
//
// The files:
//
//	a partition     store.go (a time series to write to, the order of reads after writes, the metrics)
//	                partition.go (one of its source partitions: claiming, fencing, releasing)
//	                stored.go (the stored positions, and the time of the newest bucket)
//	                send.go, outcome.go (sending writes; classifying the answers, reading back)
//	                lookup.go (buckets to reopen: the queries, the choice)
//	segments        compaction.go (segments compacted into buckets, step by step), compactionrequest.go (asking for that)
//	rollups         rollup.go (claims, watermarks, edits that rows follow), rolluprows.go (what a keeper reads and stores; the times of buckets and rows)
//	contents        contents.go (the claims of all partitions, the stored measurements of each)
//	                scan.go (buckets, for verifying; positions that edits have deleted or changed)
package sink
