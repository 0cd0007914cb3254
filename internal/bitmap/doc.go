// Package bitmap has a set of 64-bit numbers that takes about one bit for each number where numbers lie close together. Its numbers
// are offsets of Kafka records, and parts of records.
//
// A library of compressed bitmaps does more (runs, serialization, ranks). But its module has 138 MB of test data, which every first
// build would download. With the operations needed here it is no faster.
//
//	set.go    the set: adding and asking, number by number; unions, intersections, differences
//	block.go  the numbers with the same upper 48 bits
package bitmap
