// Package verify proves that a range of a partition's log is stored. It reads the range, and the positions that buckets and
// segments list. It reports which measurements are stored once, and which are missing, doubled, dead-lettered or expired. It also
// reports positions that no consumer can have written. With content it compares every value as well. On request it removes
// doubles.
//
// It shares some code with the write path: the decoding of records, the unpacking of buckets, and the codec of positions. It also
// shares MongoDB's order of values (timeseries.Compare and CanonicalType), with which it recomputes minimum and maximum. So it
// proves that the catalog and the writing kept what decoding returned. It cannot see a mistake in the shared code. The tables and
// golden files of those packages cover that, as does the check of the end-to-end tests, which shares no code with the program.
//
// It accesses the log, offsets, claims and buckets through small ports. It works on one window of a range at a time, so its
// memory does not grow with the stored data. It takes about one bit an offset for each of a few sets.
//
// It is safe beside a live writer. Every position below the committed offset is stored by the time that offset can be read (E6).
// A range ends at a committed offset that was read before.
//
//	range.go     Question, Range, Limit: the offsets to verify, below the committed offset of the group; records that were lost before
//	verifier.go  Options, Verifier: one partition after the other; Log, Offsets, Claims, Notes, Buckets
//	window.go    the part of a range that is judged at a time: the log, then the buckets, then missing, unknown, without a letter
//	set.go       sets of positions; Letters: the positions of dead letters
//	listing.go   the positions that a bucket lists, and the compaction that a segment or a bucket names
//	copies.go    which documents are the stored copies of their measurements, beside compactions; doubled measurements
//	content.go   comparing values with records, and a hash of each measurement of a window
//	account.go   what a bucket's control must say of its columns, with the minimum and maximum of each field
//	repair.go    waiting for pending writes, then removing copies from buckets and segments
//	report.go    Report, Findings, Repairs
package verify
