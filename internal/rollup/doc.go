// Package rollup defines the rollups of a time series: the levels, the windows of a level, the row of a window with the totals of
// its fields, and the document that stores rows.
//
// A level of a time series is a time series of its own: level 1h of measurements is measurements_1h, with a view, buckets,
// options and an expiry. Its rows are computed again from the stored measurements, and replaced. Nothing is ever added to a
// stored total. A row is therefore right, no matter what was computed before and how often.
//
// A row is
//
//	{time: <start of the window>, <meta>, count: 720, celsius: {n: 720, sum: 15401.5, min: 19.1, max: 24, first: 20.1, last: 21.4}}
//
// The document of a row is a closed bucket without a source, with a revision in control.rev. It holds the rows of one series and one
// period: minutes by the hour, hours by the day, days by the month. Every reader of buckets can read it.
//
// Rows of a coarser level are folds of finer rows by the same rules. The steps of a query are such folds, too.
//
// It is pure: no context, no clock, no logger, no goroutine.
//
//	level.go     levels and their setting, windows and periods; the patterns of fields that have totals;
//	             the stored list of rollups, and the watermarks of partitions
//	total.go     one number, a sum of many, the total of one field
//	row.go       the row of a window: adding measurements, folding rows, the figures that queries ask for
//	document.go  rows as a bucket, and back
//	nested.go    documents of a series and month, with days, hours and minutes nested in each other
package rollup
