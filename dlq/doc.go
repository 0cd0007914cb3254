// Package dlq implements the dead-letter topic: the form of letters, writing them to Kafka, and reading them back.
//
// A letter is the original record (key, value, headers, timestamp) with appended headers. These say where it comes from, and why
// it could not be stored. They are those of Kafka Connect, so that tools for its dead letters read ours. A few of our own have
// the prefix "waterwheel.".
//
//	envelope.go  the form of a letter: the appended headers, also those of a record that went back; Found: reading them back
//	producer.go  Options: where letters go; Producer: makes the dead-letter topics, writes letters in their order, shortens them
//	scan.go      Log, Span, Scan: reading dead-letter topics; Filter: which letters are wanted; Stats, Positions: what was seen
package dlq
