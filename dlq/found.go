package dlq

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"

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

// errNotLetter means that a record has no headers of a dead letter.
var errNotLetter = errors.New("the record is not a dead letter: no header " + headerTopic)

// parse converts a record of a dead-letter topic, ours or Kafka Connect's, back into the letter. The headers of the letter are
// the record's own again. A letter of Kafka Connect has no topic id, and its reason is the name of a Java class. The result
// shares slices with the arguments.
func parse(key, value []byte, headers []record.Header, timestamp int64) (Found, error) {
	start := -1
	for i, h := range headers {
		if h.Key == headerTopic {
			start = i
		}
	}
	if start < 0 {
		return Found{}, errNotLetter
	}
	f := Found{Letter: record.Letter{Key: key, Value: value, Timestamp: timestamp, Part: record.WholeRecord}, Attempt: 1}
	f.Letter.Number, f.Letter.Offset = unknown, unknown
	f.Headers = append(f.Headers, headers[:start]...)
	for _, h := range headers[start:] {
		if !appended(h.Key) {
			f.Headers = append(f.Headers, h)
			continue
		}
		if err := f.read(h.Key, string(h.Value)); err != nil {
			return Found{}, fmt.Errorf("reading header %s of a dead letter: %w", h.Key, err)
		}
	}
	if f.Letter.Number == unknown || f.Letter.Offset == unknown {
		return Found{}, fmt.Errorf("reading a dead letter of the source topic %q: the header with the source partition or the source offset is missing", f.Letter.Topic)
	}
	f.Letter.RefusedByDatabase = f.Stage == stageWrite
	return f, nil
}

// unknown is the partition or the offset of a letter before its header was read.
const unknown = -1

// read records the value of a letter's header.
func (f *Found) read(key, value string) (err error) {
	l := &f.Letter
	switch key {
	case headerTopic:
		l.Topic = value
	case headerPartition:
		l.Number, err = parseNatural[int32](value, 31)
	case headerOffset:
		l.Offset, err = parseNatural[int64](value, 63)
	case headerStage:
		f.Stage = value
	case headerClass:
		l.Reason = cmp.Or(l.Reason, value) // a letter of another program has no other reason
	case headerMessage:
		l.Message = value
	case headerReason:
		l.Reason = cmp.Or(value, l.Reason)
	case headerTopicID:
		l.TopicID, err = parseTopicID(value)
	case HeaderAttempt:
		f.Attempt = parseAttempt(value)
	case headerPart:
		l.Part, err = parseNatural[int32](value, 31)
	case headerCut:
		l.Cut = value
	case headerTimestamp:
		l.Timestamp, err = strconv.ParseInt(value, 10, 64)
	}
	return err
}

func parseNatural[N int32 | int64](text string, bits int) (N, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	return N(n), err
}

func parseTopicID(text string) (id [16]byte, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return id, err
	}
	if len(raw) != len(id) {
		return id, fmt.Errorf("a topic id must have %d bytes, but this topic id has %d", len(id), len(raw))
	}
	return [16]byte(raw), nil
}
