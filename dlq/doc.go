// Package dlq implements the dead-letter topic: the form of letters, writing them to Kafka, and reading them back.
//
// A letter is the original record (key, value, headers, timestamp) with appended headers. These say where it comes from, and why
// it could not be stored. They are those of Kafka Connect, so that tools for its dead letters read ours. A few of our own have
// the prefix "waterwheel.".
//
//	envelope.go   the appended headers, those of a record that went back, and counting attempts
//	found.go      Found: a letter and its place; reading the headers back
//	producer.go   Options: where letters go; Producer: making the dead-letter topics, letters in their order, partition by partition
//	write.go      one request, and shortening a letter that its topic does not take as it is
//	scan.go       Log, Span, Scan: reading dead-letter topics; Filter: which letters are wanted; Stats: counts
//	positions.go  Positions: which letters were seen
package dlq
