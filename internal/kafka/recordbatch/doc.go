// Package recordbatch decodes the record batches of Kafka's log as a broker sends them. They are compressed, may hold records of
// aborted transactions, and may be damaged. It decodes piece by piece and within bounds of memory.
//
//	reader.go     Reader: gives out the records of one answer, in pieces with buffers of their own; Memory: shared by all readers
//	decode.go     from one record batch to the next: headers, checksums, markers, aborted transactions
//	openbatch.go  the records of one record batch
//	record.go     one record, and its headers; a record that is too long to be unfolded whole
//	compress.go   the codecs, and streams that unfold a large record batch piece by piece
package recordbatch
