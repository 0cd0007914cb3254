package kafka

import (
	"encoding/binary"
	"fmt"
)

// reader takes an answer apart, field by field. The first field that is not there sets err, and all later ones are
// zero, so that callers check once at the end. What it returns aliases the answer.
type reader struct {
	rest []byte
	err  error
}

// take returns the next n bytes, or nil.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail(fmt.Errorf("%w: a field of %d bytes, %d are left", errMalformed, n, len(r.rest)))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// fail keeps the first error and makes everything after it empty.
func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *reader) boolean() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// shortLen and longLen are the lengths of strings, and of byte strings and arrays, where they are not compact; negative for
// null.
func (r *reader) shortLen() int { return int(r.int16()) }

func (r *reader) longLen() int { return int(r.int32()) }

func (r *reader) uuid() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail(fmt.Errorf("%w: a length that is none", errMalformed))
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// compactLen is the length of a compact string, byte string or array, -1 for null. No element takes less than a byte.
func (r *reader) compactLen() int {
	n := r.uvarint()
	if n > uint64(len(r.rest))+1 {
		r.fail(fmt.Errorf("%w: %d elements announced, %d bytes are left", errMalformed, n-1, len(r.rest)))
		return -1
	}
	return int(n) - 1
}

// compactBytes is nil for null.
func (r *reader) compactBytes() []byte {
	n := r.compactLen()
	if n < 0 {
		return nil
	}
	return r.take(n)
}

func (r *reader) compactString() string {
	return string(r.compactBytes())
}

// tags skips the tagged fields at the end of a flexible structure.
func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		r.uvarint() // the tag
		size := r.uvarint()
		r.take(int(min(size, uint64(len(r.rest))+1)))
	}
}
