package redrive

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// returned is the record that a letter goes back as: the original, the number of attempts including the next one, and the
// letter's place.
func returned(f *dlq.Found) kafka.Message {
	l := &f.Letter
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: append(
		slices.Clone(dlq.OwnHeaders(f.Headers)),
		record.Header{Key: dlq.HeaderAttempt, Value: []byte(strconv.Itoa(f.Attempts() + 1))},
		record.Header{Key: dlq.HeaderDriven, Value: []byte(f.Place.String())},
	)}
}

// mayBeReturned reports whether a record of a source topic may have gone back. Former versions did not write the letter's place.
func mayBeReturned(headers []record.Header) bool {
	return slices.ContainsFunc(headers, func(h record.Header) bool { return h.Key == dlq.HeaderAttempt })
}

// fingerprint identifies the content of a record.
type fingerprint [16]byte

// fingerprintOf ignores the timestamp, because the broker may have replaced it. It also ignores the letter's place, which former
// versions did not write, so that it recognises a batch that a former version began.
func fingerprintOf(key, value []byte, headers []record.Header) (f fingerprint) {
	hash := sha256.New()
	add := func(b []byte) {
		length := uint64(len(b)) + 1
		if b == nil {
			length = 0
		}
		hash.Write(binary.BigEndian.AppendUint64(nil, length))
		hash.Write(b)
	}
	add(key)
	add(value)
	for _, h := range headers {
		if h.Key == dlq.HeaderDriven {
			continue
		}
		add([]byte(h.Key))
		add(h.Value)
	}
	copy(f[:], hash.Sum(nil))
	return f
}
