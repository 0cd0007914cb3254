// Package record has the types about Kafka that all packages share. They are partitions and places in them, records, batches,
// letters, commits, and the error that stops a partition. It only defines and formats them.
//
//	partition.go  Partition, Place
//	record.go     Record, Header, Batch, Bounds; Letter; Commit; StopError, ErrOutOfRange, ErrTopicGone
package record
