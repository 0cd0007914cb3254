// Package segments is about the documents that hold the measurements of many series until they are compacted into buckets. It has
// only tests: a model of the protocol (docs/segments.md), run with random faults.
//
// # The rules
//
// For the write of a segment E1 to E7 hold as for any bucket. Compaction adds a second place for the same measurements:
//
//   - D is what any document lists: segments, ended or not, buckets, shown or not, and notes of deletions. A position leaves the
//     segments only when its bucket is acknowledged and all segments of the compaction have ended. It leaves the buckets only
//     when no segment has ended. D with ended segments and D with hidden buckets stand in for each other; the program has both.
//   - Compacted measurements do not change. Segments are frozen first, and read after the freeze is acknowledged. Nobody edits a
//     frozen segment, so the buckets made of it hold the same measurements until it is deleted.
//   - One question decides. Frozen segments are the only record of a compaction. It is finished if any of its segments has ended,
//     and rolled back if none has. An end is sent only after all inserts are acknowledged, in time for T (visibleFrom). So
//     a compaction with an ended segment has all its buckets.
//   - The question is asked when the compaction is at rest: after a fence, when no command of it can be executed any more. A
//     new owner has waited for that before its claim. An owner waits for it after a command of unknown outcome, and does not
//     release the partition before.
//   - A roll-back deletes the buckets before it unfreezes the segments, and the deletion is acknowledged in between. Otherwise
//     the segments are compacted again beside the buckets. It waits for no query: no segment had ended, so every query saw them.
//   - An ended segment is the proof. It is deleted only when all segments of its compaction have ended, and when no query
//     reads it any more.
//   - A segment whose write is unknown is not compacted (E4): it might be compacted and deleted before it is read back, and then be
//     written again. Measurements of an unknown write whose _id another document has are put elsewhere only after its grace.
//   - Edits by operators (update-meta, delete-meta) ask for a compaction, wait until every segment of that time has ended and no
//     query sees it, and change buckets. A repair changes a segment only while it is not frozen, and only as it was
//     read. It keeps the copy in a bucket only when the compaction that made the bucket is finished.
//
// Late commands do no harm. A freeze finds the segment frozen or free; the next owner finds a late freeze and rolls it
// back. An end, an unfreezing and a deletion name the compaction, whose id is never used again. Only late inserts look like wanted
// ones, and ends change the answer to the question, so both are waited for.
//
// # What a query sees
//
// Before T a query sees the segments and not the buckets, whatever the compaction does. From T on it sees the
// buckets and not the segments, if all segments have ended. The inserts must be acknowledged before T by a margin: the difference of clocks, and
// the lag of members that are read from. Otherwise a query finds segments ended whose buckets it looked for too early. While a
// compaction is unfinished after its T, queries see its measurements twice, never not at all. A T further ahead than a takeover
// takes makes this rare. Clocks decide only what is shown; the stored documents stay right.
//
// # Files
//
//	model_test.go       the tests, race_test.go: fewer of them; guards_test.go: the rules that a run may do without
//	world_test.go       time, processes, commands on their way, what goes wrong; check_test.go: what must hold at the end
//	database_test.go    a replica set whose majority lags
//	consumer_test.go    an owner: its claim, D, flushes, the commit of offsets
//	compact_test.go     its compactions; recover_test.go: what becomes of those that stopped; sweep_test.go: the end of segments
//	readers_test.go     queries; operators_test.go: edits of whole series, expiry
package segments
