// Package sink keeps buckets in MongoDB: it sets the collections up, claims partitions, reads which positions are stored,
// sends writes, finds out what became of unanswered ones, and looks stored buckets up.
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
//	                claim.go, topic.go (claiming, fencing, releasing; how many partitions the topic had at first)
//	                stored.go (D), send.go, turns.go, classify.go (writing), resolve.go (reading back)
//	                compaction.go (segments compacted into buckets, step by step), compactionask.go (asking for that)
//	                lookup.go, lookupshortlist.go (buckets to reopen: the queries, the choice), newest.go (of which time the newest is)
//	a time series   timeseries.go, setup.go, options.go, abilities.go (the handle of a time series, making it, its definition, what the server can)
//	                storage.go, sharding.go (how the buckets are kept on disk, and on shards)
//	                segments.go (whether it has segments)
//	                view.go, viewpipeline.go, viewsegments.go (its view: the wanted one, its stages, those with segments)
//	                viewprobe.go, viewprobes.go, viewstate.go (which views work, by which documents; what there is)
//	                change.go, changelock.go, upkeep.go, upkeepbuild.go (changing the options, with what the server does by itself)
//	                trial.go (trying the rights that a consumer needs)
//	                metrics.go
//	rollups         rollup.go, rollupsetup.go (what a keeper reads and stores; making and dropping levels), rollupnotes.go (edits that rows follow), rollupnested.go (nested documents)
//	indexes         index.go, indexstats.go (those there are, in the terms of measurements), indexcreate.go, indexmixed.go, indexchange.go, neededindexes.go
//	                indexexpiry.go, indexdefinition.go (the user's words, kept), indexmeta.go (META_INDEXES)
//	                indexdoubt.go, fieldsample.go (what a user should know of a new index, which fields measurements have)
//	beside it       scan.go (Buckets, for verifying), holdings.go, size.go, partitions.go (what is stored, whose claims there are)
//	                selection.go (whole series, to be edited), selectiontry.go, selectionchange.go, selectiondelete.go, selectionbatch.go
//	                notes.go (which positions such edits deleted or changed)
//	                expire.go (what has expired)
package sink
