// Package dlq is the dead-letter topic: what a letter is, how it is written to Kafka and how it is read back.
//
// A letter is the record as it was (key, value, headers, timestamp) with headers appended that say where it comes from
// and why it could not be stored. They are those of Kafka Connect, so that tools for its dead letters read ours, and a
// few of our own with the prefix "waterwheel.".
package dlq
