package dlq

import (
	"slices"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// These are the stages of a letter, in Kafka Connect's terms.
const (
	// stageDecode means that the record could not be decoded.
	stageDecode = "VALUE_CONVERTER"
	// stageWrite means that MongoDB rejected the measurement.
	stageWrite = "TASK_PUT"
)

// Found is a record of a dead-letter topic, with the letter that it holds.
type Found struct {
	// Place is its place in the dead-letter topic.
	record.Place
	// Letter shares its bytes with the log. They are valid during the call. Its Headers are nil.
	Letter record.Letter
	// Headers are the headers of the letter's record.
	Headers []record.Header
	// Stage is stageDecode, stageWrite, or a word of another program.
	Stage string
	// Attempt counts how often the record has come to the dead-letter topic, including this letter.
	Attempt int
	// Err is why the record is not a letter. Then everything but Place is empty.
	Err error
}

// found parses a record of a dead-letter topic.
func found(p record.Partition, r *record.Record) Found {
	headers, err := recordbatch.ParseHeaders(r.Headers)
	f := Found{Err: err}
	if err == nil {
		f, f.Err = parse(r.Key, r.Value, headers, r.Timestamp)
	}
	f.Place = record.Place{Partition: p, Offset: r.Offset}
	return f
}

// Attempts returns how often the record was tried. In a letter of another program, our count is among the record's own headers.
func (f *Found) Attempts() int { return max(f.Attempt, AttemptOf(f.Headers)) }

// Clone returns a copy of the letter with its own bytes.
func (f *Found) Clone() Found {
	c := *f
	c.Letter.Key, c.Letter.Value = slices.Clone(f.Letter.Key), slices.Clone(f.Letter.Value)
	c.Headers = slices.Clone(f.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return c
}
