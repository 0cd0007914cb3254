// Package dlq is the dead-letter topic: the form of a letter and its producer.
package dlq
