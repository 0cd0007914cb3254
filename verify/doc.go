// Package verify proves what is stored: it reads a range of a partition's log, and the positions that buckets list, and
// tells which measurements are stored once, which are missing, doubled, dead-lettered or expired, and which positions
// nobody can have written. With content it compares every value as well, and on request it takes doubles out.
//
// It shares with the writer only the decoding of records and the unpacking of buckets. It knows the log and the buckets
// through small ports, and works on a range at a time, so that its memory does not grow with what is stored: about one
// bit an offset for each of a few sets.
//
// It is safe beside a live writer: every position below the committed offset is stored by the time that offset can be
// read (E6), so a range must end at a committed offset that was read before.
package verify
