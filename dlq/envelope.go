package dlq

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
func envelope(l *record.Letter, headers []record.Header, group string) []record.Header {
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
	if !isDriven(headers) {
		return 1
	}
	return parseAttempt(string(headers[len(headers)-2].Value))
}

// isDriven reports whether a record with these headers has gone back. A re-drive appends its two headers at the end.
func isDriven(headers []record.Header) bool {
	n := len(headers)
	if n < 2 || headers[n-2].Key != HeaderAttempt || headers[n-1].Key != HeaderDriven {
		return false
	}
	_, err := record.ParsePlace(string(headers[n-1].Value))
	return err == nil
}

// OwnHeaders returns the record's headers without those of a re-drive.
func OwnHeaders(headers []record.Header) []record.Header {
	if isDriven(headers) {
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
