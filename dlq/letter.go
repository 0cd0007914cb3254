package dlq

import (
	"github.com/segmentio/kafka-go"
)

// WholeRecord is the part of a letter that is a record as a whole, not one element of an array record.
const WholeRecord int32 = -1

// The stages of a letter, in Kafka Connect's words.
const (
	// StageDecode: the record could not be decoded.
	StageDecode = "VALUE_CONVERTER"
	// StageWrite: MongoDB refused the measurement.
	StageWrite = "TASK_PUT"
)

// Header is a header of a Kafka record.
type Header = kafka.Header

// Letter is a record, or one element of an array record, that could not be stored.
type Letter struct {
	// Topic, TopicID, Partition, Offset and Part are the place it comes from. Together they identify a letter: one that
	// is found twice in a dead-letter topic was produced twice. TopicID is zero where it is not known.
	Topic     string
	TopicID   [16]byte
	Partition int32
	Offset    int64
	Part      int32
	// Key, Value and Headers are the record's. Nil and empty differ. Value is the element's bytes when Part is not
	// WholeRecord.
	Key, Value []byte
	Headers    []Header
	// Timestamp is the record's, in milliseconds since 1970.
	Timestamp int64
	// Reason is a code of measurement.Reason's closed set; Message one sentence of at most 256 bytes once written.
	Reason, Message string
	// Stage is StageDecode or StageWrite.
	Stage string
	// Attempt counts how often the record has come to the dead-letter topic, this letter included; 0 is written as 1.
	Attempt int
	// Cut, when not empty, says what of the record the letter lacks: Produce takes it off a letter too long for its topic, and
	// a record may be gone when its letter is made. Such a letter cannot be driven back.
	Cut string
}

// source is the partition that it comes from.
func (l *Letter) source() Place { return Place{l.Topic, l.Partition} }
