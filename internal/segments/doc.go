// Package segments models the documents that hold the measurements of many series until they are compacted into buckets. It has only
// tests, which run a model of the protocol (docs/segments.md) with random faults.
//
// # The rules
//
// For the write of a segment E1 to E7 hold as for any bucket. Compaction adds a second place for the same measurements:
//
//   - The stored positions are the positions that any document lists: segments, ended or not, buckets, shown or not, and notes of deletions. A
//     position leaves the segments only when its bucket is acknowledged and all segments of the compaction have ended. It leaves the
//     buckets only when no segment has ended. Either ended segments or hidden buckets would suffice for the stored positions. The program uses both.
//   - Compacted measurements do not change. Segments are frozen first, and read after the freeze is acknowledged. Nobody edits a
//     frozen segment, so the buckets made of it hold the same measurements until it is deleted.
//   - One question decides. Frozen segments are the only record of a compaction. It is finished if any of its segments has ended,
//     and rolled back if none has. An end is sent only after all inserts are acknowledged, in time for T (visibleFrom). So
//     a compaction with an ended segment has all its buckets.
//   - The question is asked when the compaction is at rest, that is, after a fence, when no command of it can be executed any more. A
//     new owner has waited for this before its claim. After a command of unknown outcome an owner waits for it, and does not release
//     the partition before.
//   - A roll-back deletes the buckets, waits until the deletion is acknowledged, and then unfreezes the segments. Otherwise the
//     segments are compacted again while the buckets still exist. It waits for no query. No segment had ended, so every query saw them.
//   - An ended segment is the proof. It is deleted only when all segments of its compaction have ended, and when no query
//     reads it any more.
//   - A segment whose write is unknown is not compacted (E4). Otherwise it might be compacted and deleted before it is read back, and
//     then be written again. If another document has the _id of an unknown write, its measurements are written elsewhere only after
//     its grace period.
//   - Edits by operators (update-meta, delete-meta) ask for a compaction, wait until every segment of that time has ended and no
//     query sees it, and change buckets. A repair changes a segment only while it is not frozen, and only if it is still as it was
//     read. It keeps the copy in a bucket only when the compaction that made the bucket is finished.
//
// Most late commands do no harm. A freeze finds the segment frozen or free. The next owner finds a late freeze and rolls it back. An
// end, an unfreezing and a deletion name the compaction, whose id is never used again. Two late commands matter: an insert looks
// like a wanted one, and an end changes the answer to the question. The owner therefore waits for both.
//
// # What a query sees
//
// Before T a query sees the segments and not the buckets, no matter what the compaction does. From T on it sees the buckets and
// not the segments, if all segments have ended. The inserts must be acknowledged a margin before T. The margin covers the
// difference of clocks, and the lag of the members from which queries read. Otherwise a query finds ended segments, but has
// looked for their buckets too early. While a compaction is unfinished after its T, queries see its measurements twice, but never
// miss them. This is rare if T is further ahead than a takeover takes. Clocks decide only what queries see. The stored documents
// stay right.
//
// # Files
//
//	model_test.go       the tests; race_test.go: fewer runs for the race detector; guards_test.go: the rules that a run can switch off
//	world_test.go       time, processes, commands in flight, faults; check_test.go: checks at the end of a run
//	database_test.go    a replica set whose majority lags
//	consumer_test.go    an owner's claim, its stored positions, its flushes and its commits of offsets
//	compact_test.go     compactions of an owner; recover_test.go: recovery of interrupted compactions; sweep_test.go: the end of segments
//	readers_test.go     queries; operators_test.go: edits of whole series, expiry
package segments
