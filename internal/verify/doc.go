// Package verify proves what is stored: it reads a range of a partition's log, and the positions that buckets and segments
// list, and tells which measurements are stored once, which are missing, doubled, dead-lettered or expired, and which positions
// nobody can have written. With content it compares every value as well, and on request it takes doubles out.
//
// With the write path it shares the decoding of records, the unpacking of buckets, the codec of positions, and MongoDB's order
// of values (timeseries.Compare and CanonicalType), by which it makes minimum and maximum anew. So it proves that the catalog
// and the writing kept what decoding gave; a mistake in what is shared it cannot see. For that there are the tables and golden
// files of those packages, and the check of the end-to-end tests, which shares no code with the program.
//
// It knows the log, offsets, claims and buckets through small ports, and works on a range at a time, so that its memory does
// not grow with what is stored: about one bit an offset for each of a few sets.
//
// It is safe beside a live writer: every position below the committed offset is stored by the time that offset can be
// read (E6), so a range ends at a committed offset that was read before.
//
//	range.go         Question, Range, Limit: what to verify, below what the group has committed
//	ports.go         Log, Offsets, Claims, Buckets
//	verifier.go      Options, Verifier: one partition after the other
//	window.go        the part of a range that is judged at a time: reading the log, then the buckets
//	set.go           sets of positions
//	letters.go       Letters: the places of dead letters
//	listing.go       what a bucket says it holds
//	segment.go       what a segment or a bucket made of segments says of that
//	compactions.go   which documents are the stored copies of their measurements, beside compactions
//	conclude.go      missing, unknown, without a letter
//	doubles.go       doubled: finding all copies of a measurement, and the copy that stays
//	content.go       comparing values with records
//	fingerprints.go  a hash of each measurement of a window
//	account.go       what a bucket's control must say of its columns; extreme.go: its minimum and maximum
//	elements.go      BSON elements that may be malformed
//	lost.go          records that retention deleted before they were read
//	wait.go          before a repair: the writes that are on their way
//	repair.go        taking copies out of buckets and segments; remainder.go: the rest of one
//	report.go        Report, Findings; repairs.go: Repairs
package verify
