package dlq

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// returned is the record that a letter goes back as: the original, and how often it was tried with the coming time.
func returned(l *Letter) Record {
	r := Record{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value}
	for _, h := range l.Headers {
		if h.Key != headerAttempt {
			r.Headers = append(r.Headers, h)
		}
	}
	r.Headers = append(r.Headers, Header{Key: headerAttempt, Value: []byte(strconv.Itoa(l.attempts() + 1))})
	return r
}

// isReturned tells whether a record of a source topic is one that went back.
func isReturned(r *Record) bool {
	for _, h := range r.Headers {
		if h.Key == headerAttempt {
			return true
		}
	}
	return false
}

// fingerprint identifies what a record holds.
type fingerprint [16]byte

// fingerprintOf leaves the timestamp out: the broker may have set its own.
func fingerprintOf(r *Record) (f fingerprint) {
	hash := sha256.New()
	add := func(b []byte) {
		length := uint64(len(b)) + 1
		if b == nil {
			length = 0
		}
		hash.Write(binary.BigEndian.AppendUint64(nil, length))
		hash.Write(b)
	}
	add(r.Key)
	add(r.Value)
	for _, h := range r.Headers {
		add([]byte(h.Key))
		add(h.Value)
	}
	copy(f[:], hash.Sum(nil))
	return f
}
