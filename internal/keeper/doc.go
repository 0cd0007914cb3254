// Package keeper maintains the rollups of time series. It finds the hours that were touched since the last pass, computes their
// rows again from the stored measurements, and replaces them. It increments nothing, so a row is right whatever was computed
// before.
//
// # A pass
//
// A pass handles one partition that this process owns:
//
//  1. C is the offset below which the worker has stored everything. A fence then verifies that the claim still holds. The keeper
//     reads all documents of the partition with positions in [watermark, C). Their hours are touched.
//  2. For some series at a time, the keeper reads the rollup documents with their revisions. Then it reads the segments, then the
//     buckets, of all partitions, as they are shown at one moment. A position counts once, even if two documents show it.
//  3. The keeper replaces the rows of each document, only if the document still has the revision that was read. Otherwise it
//     starts again at 2 with the series of that document. It folds days from the documents of hours in the same way: it reads the
//     target first, and then the sources.
//  4. When everything is acknowledged, the watermark becomes C, if the partition document still has our claim and the old
//     watermark.
//
// A pass that failed is repeated for half as many offsets: C is then lower. So the rows advance, although a pass is interrupted
// again and again.
//
// # Levels
//
// A keeper maintains every level that the time series has when a pass begins. The watermark of a partition is one for all levels.
// A pass that left out a level would move it past measurements that this level lacks, and nobody would compute them. So
// ROLLUP_LEVELS only adds levels, and only DropRollup ends one. It removes the level from the definition, waits for writes that
// were sent before, and drops the collections. A keeper reads the definition before each write of rows, because an insert would
// create a dropped collection again.
//
// # Why the rows are right
//
// R1: every measurement that is shown and has a position below the watermark is in its rows exactly once. It was durable before C
// was read, so the scan after the fence finds it. Its hour is computed from what is shown afterwards. The write that makes a
// claim also lowers the watermark to the claim's start. So an owner stores nothing below the watermark that later passes ignore.
//
// R2: a row of revision n + 1 is a function of what was shown at one moment when the document had revision n. So a keeper that
// was suspended cannot replace rows that were computed from newer sources. For the same reason a keeper replaces a document even
// by an equal one: the revision records that newer sources were read. And a document stays even if its last row was removed.
//
// R3: the count of a row never shrinks, except by a note. Measurements expire, and people delete buckets by hand. Totals outlive
// both.
//
// Two keepers of one partition, a suspended keeper, and a crash between any two steps do no harm. This needs no lease.
//
// # Frozen hours
//
// MongoDB deletes measurements once they have expired. An hour is frozen one hour before its first measurement could expire. It
// is not computed again, and later measurements of it are only counted. The same happens to an hour from which more measurements
// were deleted by hand than have come since. Its row would shrink, R3 keeps it, and it is unknown which late measurements it
// already holds. Adding them might count them twice. `waterwheel rollup build --replace` computes such hours from what is left.
//
// Rows of a level with an expiry are computed until their whole document has expired, because readers count on each row until the
// row has expired. One hour before the document of its hours may be deleted, a day is computed from the measurements instead. It is
// frozen if these may be deleted too.
//
// # Between two levels
//
// A keeper may die after it has stored rows of hours and before it has stored those of their days. The next pass finds the hours
// by their measurements, and folds the days. It does not find hours whose measurements are deleted or expired by then. Their days
// stay behind until `waterwheel rollup build` folds them.
//
// # Edits during an unfinished compaction
//
// update-meta and delete-meta also edit buckets of compactions that queries do not see yet. The note of the edit stays until ten
// minutes after queries see them. If the owner of a partition dies during the compaction, and no owner recovers it by then, the
// recovery changes what is shown once more. No note asks for these rows then, so they stay as they are until
// `waterwheel rollup build --replace` computes them. If another consumer takes the partition over in time, the rows become right.
//
// # Files
//
//	keeper.go   the goroutine: which partition is next, and how long to rest; counters
//	pass.go     one pass of one partition, or of one note: the hours of series that were touched
//	compute.go  rows of some series and hours, computed and stored
//	source.go   the measurements from which rows are computed, and the rows of minutes and hours
//	days.go     rows of days, folded from hours, or from measurements if the rows of hours have expired
//	nested.go   documents with the days, hours and minutes of a month, for queries of the classic form
//	build.go    the commands of an operator: building rows, verifying rows
package keeper
