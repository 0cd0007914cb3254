// Package keeper keeps the rollups of time series: it finds the hours that were touched since the last pass, computes their rows again
// from what is stored, and replaces them. It increments nothing, so a row is right whatever was computed before.
//
// # A pass
//
// A pass takes one partition that this process owns:
//
//  1. C is the offset below which the worker has done everything. Then a fence shows that the claim stands. All documents of the
//     partition with positions in [below, C) are read, below being the watermark: their hours are touched.
//  2. For some series at a time: the rollup documents are read, with their revisions; then the segments, then the buckets, of all
//     partitions, as they are shown at one moment. A position counts once, whatever shows it twice.
//  3. The documents get their new rows, each only if it has the revision that was read. Who is late with one begins again at 2. Days are
//     folded from the documents of hours in the same way: the target is read first, and then the sources.
//  4. When everything is acknowledged, the watermark becomes C, if the partition document still has our claim and the former watermark.
//
// # Why it holds
//
// R1: every measurement that is shown and has a position below the watermark is in its rows exactly once. It was durable before C was
// taken, so the scan after the fence finds it. Its hour is computed from what is shown afterwards. A claim lowers the watermark to its
// start, in the write that claims, so an owner stores nothing below the watermark that no later pass looks at.
//
// R2: a row of revision n + 1 is a function of what was shown at one moment when revision n was there. So a keeper that was asleep
// replaces nothing that was computed from newer sources. That is why a document is replaced also by an equal one: the revision says
// that newer sources were looked at. And that is why a document without rows stays, where rows were taken away.
//
// R3: the count of a row never shrinks but by a note. Measurements expire, and people delete buckets by hand; totals outlive both.
//
// Two keepers of one partition, one that was asleep, and a crash between any two steps do no harm. No lease is needed for that.
//
// # Frozen hours
//
// MongoDB deletes measurements once they have expired. An hour is frozen an hour before it could lose the first: it is not computed
// again, and measurements that come for it later are only counted. So are measurements that come for an hour from which a hand has
// deleted more: its row would shrink, R3 keeps it, and it is not known which of the late ones it holds already. Adding them might count
// them twice. `waterwheel rollup build --replace` computes such hours from what is left.
//
// # Between two levels
//
// A keeper may die when rows of hours are stored and those of their days are not. The next pass finds the hours by their measurements, and
// folds the days. It finds none that are deleted or expired by then: the days stay behind until `waterwheel rollup build` folds them.
//
// # Files
//
//	keeper.go    the goroutine: which partition is next, and how long to rest
//	pass.go      one pass of one partition
//	touched.go   the hours of series that were touched
//	compute.go   rows of some series and hours, computed and stored
//	source.go    the measurements they are computed from
//	days.go      rows of days, folded from hours
//	nested.go    documents with the days, hours and minutes of a month, for queries of the classic form
//	notes.go     series whose rows a command has touched
//	build.go     what an operator asks for: rows built, rows verified
//	metrics.go   counters
package keeper
