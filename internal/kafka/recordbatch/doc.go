// Package recordbatch takes the record batches of Kafka's log apart, piece by piece and within bounds of memory, as a broker
// has sent them: compressed, with what transactions have aborted, and possibly damaged.
//
//	reader.go     Reader: gives out the records of one answer; Memory: what all readers of a process share
//	decode.go     from one record batch to the next: headers, checksums, markers
//	openbatch.go  the records of one record batch
//	record.go     one record, and its headers
//	cutrecord.go  a record that is too long to be unfolded whole
//	compress.go   the codecs
//	unfold.go     the streams by which a large record batch is unfolded piece by piece
//	piece.go      the buffers of what is given out
//	loan.go       when nothing reads the bytes of an answer any more
//	aborted.go    which transactions do not count
//	skip.go       record batches that cannot be read
package recordbatch
