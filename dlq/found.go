package dlq

import (
	"slices"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// The stages of a letter, in Kafka Connect's words.
const (
	// stageDecode means that the record could not be decoded.
	stageDecode = "VALUE_CONVERTER"
	// stageWrite means that MongoDB refused the measurement.
	stageWrite = "TASK_PUT"
)

// Found is a record of a dead-letter topic, and the letter that it is.
type Found struct {
	// Place is where it stands in the dead-letter topic.
	record.Place
	// Letter shares its bytes with the log: they are valid during the call. Its Headers are nil.
	Letter record.Letter
	// Headers are those that the letter's record had.
	Headers []record.Header
	// Stage is stageDecode, stageWrite, or what another program says.
	Stage string
	// Attempt counts how often the record has come to the dead-letter topic, this letter included.
	Attempt int
	// Err is why the record is no letter; all but Place is then empty.
	Err error
}

// found reads a record of a dead-letter topic.
func found(p record.Partition, r *record.Record) Found {
	headers, err := recordbatch.ParseHeaders(r.Headers)
	f := Found{Err: err}
	if err == nil {
		f, f.Err = parse(r.Key, r.Value, headers, r.Timestamp)
	}
	f.Place = record.Place{Partition: p, Offset: r.Offset}
	return f
}

// Attempts is how often the record was tried. The letter of another program has the count of ours among the record's own
// headers.
func (f *Found) Attempts() int { return max(f.Attempt, AttemptOf(f.Headers)) }

// Clone is the letter with bytes of its own.
func (f *Found) Clone() Found {
	c := *f
	c.Letter.Key, c.Letter.Value = slices.Clone(f.Letter.Key), slices.Clone(f.Letter.Value)
	c.Headers = slices.Clone(f.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return c
}
