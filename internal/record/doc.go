// Package record has the words that all rooms share about Kafka: partitions and places in them, records and batches of them,
// letters, commits, and the error that stops a partition. It does nothing with them.
//
//	partition.go  Partition, Place
//	record.go     Record, Header, Batch, Bounds
//	letter.go     Letter
//	commit.go     Commit
//	errors.go     StopError, ErrOutOfRange, ErrTopicGone
package record
