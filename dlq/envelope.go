package dlq

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// These are the names of the appended headers. headerTopic comes first, as in Kafka Connect. The last header of that name marks
// where the record's own headers end.
const (
	headerTopic     = "__connect.errors.topic"
	headerPartition = "__connect.errors.partition"
	headerOffset    = "__connect.errors.offset"
	headerConnector = "__connect.errors.connector.name"
	headerStage     = "__connect.errors.stage"
	headerClass     = "__connect.errors.exception.class.name"
	headerMessage   = "__connect.errors.exception.message"
	headerReason    = "waterwheel.reason"
	headerTopicID   = "waterwheel.topic.id"
	headerPart      = "waterwheel.part"
	// headerCut says what was removed from an overlong letter.
	headerCut = "waterwheel.cut"
	// headerTimestamp holds the record's timestamp in milliseconds. The letter's own timestamp is the time of its writing if the
	// topic uses LogAppendTime, or if Kafka rejects the record's timestamp.
	headerTimestamp = "waterwheel.timestamp"
)

// These are lengths of messages, in bytes.
const (
	// maxMessage is the length of the longest message. It has room for everything that decoding reports, including the advice at
	// its end.
	maxMessage = 1200
	// leastMessage is the length of the longest message in a letter whose topic only takes it without any content of its record.
	leastMessage = 256
)

// envelope returns the headers of the letter of a record with these headers: the record's own, then the appended ones. It leaves
// out an attempt that a re-drive gave the record, because the appended attempt continues it.
func envelope(l *record.DeadLetter, headers []record.Header, group string) []record.Header {
	stage := stageDecode
	if l.RefusedByDatabase {
		stage = stageWrite
	}
	all := slices.Clone(OwnHeaders(headers))
	add := func(key, value string) { all = append(all, record.Header{Key: key, Value: []byte(value)}) }
	add(headerTopic, l.Topic)
	add(headerPartition, strconv.Itoa(int(l.Number)))
	add(headerOffset, strconv.FormatInt(l.Offset, 10))
	add(headerConnector, group)
	add(headerStage, stage)
	add(headerClass, l.Reason)
	add(headerMessage, shorten(l.Message, maxMessage))
	add(headerReason, l.Reason)
	if l.TopicID != ([16]byte{}) {
		add(headerTopicID, record.FormatTopicID(l.TopicID))
	}
	add(HeaderAttempt, strconv.Itoa(AttemptOf(headers)))
	if l.Part != record.WholeRecord {
		add(headerPart, strconv.Itoa(int(l.Part)))
	}
	if l.Cut != "" {
		add(headerCut, l.Cut)
	}
	add(headerTimestamp, strconv.FormatInt(l.Timestamp, 10))
	return all
}

// shorten cuts a message to at most most bytes of valid UTF-8.
func shorten(message string, most int) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= most {
		return message
	}
	const ellipsis = "…"
	end := most - len(ellipsis)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}

// appended reports whether a header is one that the writer of a letter (this program or Kafka Connect) appends.
func appended(key string) bool {
	return strings.HasPrefix(key, "__connect.errors.") || slices.Contains([]string{
		headerReason, headerTopicID, HeaderAttempt, headerPart, headerCut, headerTimestamp,
	}, key)
}

// These headers are appended by a re-drive to a record that goes back.
const (
	// HeaderAttempt counts the attempts to store the record, including the next one. A letter has it too.
	HeaderAttempt = "waterwheel.attempt"
	// HeaderDriven is the last header: the place of the letter that the record was made of. A producer does not write it by
	// accident, whereas it might write an attempt.
	HeaderDriven = "waterwheel.driven"
)

// AttemptOf returns the attempt of a letter of a record with these headers. It is 1, unless a re-drive has sent the record back.
// It ignores an attempt in a producer's own header.
func AttemptOf(headers []record.Header) int {
	if _, driven := DrivenFrom(headers); !driven {
		return 1
	}
	return parseAttempt(string(headers[len(headers)-2].Value))
}

// DrivenFrom returns the place of the letter that a record with these headers was made of. False means that the record has not
// gone back. A re-drive appends its two headers at the end.
func DrivenFrom(headers []record.Header) (record.Place, bool) {
	n := len(headers)
	if n < 2 || headers[n-2].Key != HeaderAttempt || headers[n-1].Key != HeaderDriven {
		return record.Place{}, false
	}
	place, err := record.ParsePlace(string(headers[n-1].Value))
	return place, err == nil
}

// OwnHeaders returns the record's headers without those of a re-drive.
func OwnHeaders(headers []record.Header) []record.Header {
	if _, driven := DrivenFrom(headers); driven {
		return headers[:len(headers)-2]
	}
	return headers
}

// parseAttempt returns 1 for anything that is not a positive number, because another program may have written the header.
func parseAttempt(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return int(n)
}

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
	// DeadLetter shares its bytes with the log. They are valid during the call. Its Headers are nil.
	Letter record.DeadLetter
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
	f := Found{Letter: record.DeadLetter{Key: key, Value: value, Timestamp: timestamp, Part: record.WholeRecord}, Attempt: 1}
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
