package dlq

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// returned is the record that a letter goes back as: the original, how often it was tried with the coming time, and where the
// letter stands.
func returned(f *Found) Record {
	l := &f.Letter
	return Record{Timestamp: l.Timestamp, Key: l.Key, Value: l.Value, Headers: slices.Concat(ownHeaders(l.Headers), drivenHeaders(f))}
}

// isReturned tells whether a record of a source topic may be one that went back, also by a former version, which named no
// letter.
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

// fingerprintOf leaves the timestamp out: the broker may have set its own; and the letter's place, which former versions did not
// write: a parcel that such a one began is still recognised.
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
		if h.Key == headerDriven {
			continue
		}
		add([]byte(h.Key))
		add(h.Value)
	}
	copy(f[:], hash.Sum(nil))
	return f
}
