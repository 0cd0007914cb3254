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

// returned is the record that a letter goes back as: the original, how often it was tried with the coming time, and where the
// letter stands.
func returned(f *dlq.Found) kafka.Message {
	l := &f.Letter
	return kafka.Message{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: append(
		slices.Clone(dlq.OwnHeaders(f.Headers)),
		record.Header{Key: dlq.HeaderAttempt, Value: []byte(strconv.Itoa(f.Attempts() + 1))},
		record.Header{Key: dlq.HeaderDriven, Value: []byte(f.Place.String())},
	)}
}

// mayBeReturned reports whether a record of a source topic may be one that went back, also by a former version, which named no
// letter.
func mayBeReturned(headers []record.Header) bool {
	return slices.ContainsFunc(headers, func(h record.Header) bool { return h.Key == dlq.HeaderAttempt })
}

// fingerprint identifies what a record holds.
type fingerprint [16]byte

// fingerprintOf leaves the timestamp out: the broker may have set its own; and the letter's place, which former versions did not
// write: a batch that such a one began is still recognised.
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
