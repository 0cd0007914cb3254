// Package waterwheel is the root of a Kafka consumer group that keeps measurement events as buckets in MongoDB, every record
// exactly once. The program is cmd/consumer; ARCHITECTURE.md says what each folder is. This package holds only the test
// that the folders depend on each other in one direction.
package waterwheel
