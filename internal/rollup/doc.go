// Package rollup holds what a rollup of a time series is: its levels, the windows of a level, the row of a window with the totals of
// its fields, and the document in which rows are stored.
//
// A level of a time series is a time series of its own: level 1h of measurements is measurements_1h, with a view, buckets, options and
// an expiry. Its rows are computed again from what is stored, and replaced; nothing is ever added to a stored total. So a row is right
// whatever was computed before, and however often.
//
// A row is
//
//	{time: <begin of the window>, <meta>, count: 720, celsius: {n: 720, sum: 15401.5, min: 19.1, max: 24, first: 20.1, last: 21.4}}
//
// Its document is a bucket without a source, closed, with a revision in control.rev, and holds the rows of one series and one period:
// minutes by the hour, hours by the day, days by the month. Whatever reads buckets reads it.
//
// Rows of a coarser level are folds of finer rows by the same rules, and so are the steps of a query.
//
// It is pure: no context, no clock, no logger, no goroutine.
//
//	level.go     levels and their setting, names of collections, windows and periods
//	number.go    one number, and a sum of many
//	total.go     the total of one field
//	row.go       the row of a window: measurements added, rows folded
//	aggregate.go some figures of the totals, as queries ask for them
//	fields.go    which fields have totals
//	document.go  rows as a bucket, and back
//	nested.go    documents of a series and month, with days, hours and minutes nested in each other
//	stored.go    what else is stored: which rollups there are, how far they are
package rollup
