package dlq

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// ErrNotLetter means that a record has no headers of a dead letter.
var ErrNotLetter = errors.New("the record is not a dead letter: no header " + headerTopic)

// Parse reads a record of a dead-letter topic, ours or Kafka Connect's, back into the letter it was written from: its
// headers are the record's own again. The letter of Kafka Connect has no topic id and as its reason the name of a Java
// class. Slices are shared with the arguments.
func Parse(key, value []byte, headers []Header, timestamp int64) (Letter, error) {
	start := -1
	for i, h := range headers {
		if h.Key == headerTopic {
			start = i
		}
	}
	if start < 0 {
		return Letter{}, ErrNotLetter
	}
	l := Letter{Key: key, Value: value, Timestamp: timestamp, Part: WholeRecord, Attempt: 1}
	l.Headers = append(l.Headers, headers[:start]...)
	p := parser{letter: &l}
	for _, h := range headers[start:] {
		if !appended(h.Key) {
			l.Headers = append(l.Headers, h)
			continue
		}
		if err := p.header(h.Key, string(h.Value)); err != nil {
			return Letter{}, fmt.Errorf("reading header %s of a letter: %w", h.Key, err)
		}
	}
	if !p.partition || !p.offset {
		return Letter{}, fmt.Errorf("reading a letter of topic %q: its partition or offset is missing", l.Topic)
	}
	if l.Reason == "" {
		l.Reason = p.class
	}
	return l, nil
}

// parser notes what a letter's headers say, and which of the indispensable ones were there.
type parser struct {
	letter            *Letter
	partition, offset bool
	class             string
}

func (p *parser) header(key, value string) (err error) {
	l := p.letter
	switch key {
	case headerTopic:
		l.Topic = value
	case headerPartition:
		p.partition = true
		l.Partition, err = parseIndex(value)
	case headerOffset:
		p.offset = true
		l.Offset, err = parseNatural(value)
	case headerStage:
		l.Stage = value
	case headerClass:
		p.class = value
	case headerMessage:
		l.Message = value
	case headerReason:
		l.Reason = value
	case headerTopicID:
		l.TopicID, err = parseTopicID(value)
	case headerAttempt:
		l.Attempt = parseAttempt(value)
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
