package dlq

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"waterwheel/record"
)

// errNotLetter means that a record has no headers of a dead letter.
var errNotLetter = errors.New("the record is not a dead letter: no header " + headerTopic)

// parse reads a record of a dead-letter topic, ours or Kafka Connect's, back into the letter it was written from: its
// headers are the record's own again. The letter of Kafka Connect has no topic id and as its reason the name of a Java
// class. Slices are shared with the arguments.
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
	f.Headers = append(f.Headers, headers[:start]...)
	p := parser{found: &f}
	for _, h := range headers[start:] {
		if !appended(h.Key) {
			f.Headers = append(f.Headers, h)
			continue
		}
		if err := p.header(h.Key, string(h.Value)); err != nil {
			return Found{}, fmt.Errorf("reading header %s of a letter: %w", h.Key, err)
		}
	}
	if !p.partition || !p.offset {
		return Found{}, fmt.Errorf("reading a letter of topic %q: its partition or offset is missing", f.Letter.Topic)
	}
	f.Letter.Reason = cmp.Or(f.Letter.Reason, p.class)
	f.Letter.RefusedByDatabase = f.Stage == stageWrite
	return f, nil
}

// parser notes what a letter's headers say, and which of the indispensable ones were there.
type parser struct {
	found             *Found
	partition, offset bool
	class             string
}

func (p *parser) header(key, value string) (err error) {
	l := &p.found.Letter
	switch key {
	case headerTopic:
		l.Topic = value
	case headerPartition:
		p.partition = true
		l.Number, err = parseIndex(value)
	case headerOffset:
		p.offset = true
		l.Offset, err = parseNatural(value)
	case headerStage:
		p.found.Stage = value
	case headerClass:
		p.class = value
	case headerMessage:
		l.Message = value
	case headerReason:
		l.Reason = value
	case headerTopicID:
		l.TopicID, err = parseTopicID(value)
	case HeaderAttempt:
		p.found.Attempt = parseAttempt(value)
	case headerPart:
		l.Part, err = parseIndex(value)
	case headerCut:
		l.Cut = value
	case headerTimestamp:
		l.Timestamp, err = strconv.ParseInt(value, 10, 64)
	}
	return err
}

func parseIndex(text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int32(n), err
}

func parseNatural(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err
}

func parseTopicID(text string) (id [16]byte, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return id, err
	}
	if len(raw) != len(id) {
		return id, fmt.Errorf("a topic id has %d bytes, this has %d", len(id), len(raw))
	}
	return [16]byte(raw), nil
}
