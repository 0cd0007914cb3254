package wire

import (
	"encoding/binary"
	"fmt"
)

// Reader takes an answer apart, field by field. The first field that is not there is its error, and all later ones are
// zero, so that callers check once at the end. What it returns aliases the answer.
type Reader struct {
	whole, rest []byte
	err         error
}

// NewReader reads b.
func NewReader(b []byte) *Reader { return &Reader{whole: b, rest: b} }

// Err is what was wrong first.
func (r *Reader) Err() error { return r.err }

// Wrong is what was wrong first when something was read. Nil means nothing.
func (r *Reader) Wrong(reading string) error {
	if r.err != nil {
		return fmt.Errorf("reading %s: %w", reading, r.err)
	}
	return nil
}

// More reports whether anything is left.
func (r *Reader) More() bool { return len(r.rest) > 0 }

// Memory is the memory of the answer, all of it.
func (r *Reader) Memory() []byte { return r.whole }

// Fail keeps the first error and makes everything after it empty.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

// Times is a loop over so many elements, as long as nothing is wrong.
func (r *Reader) Times(n int) func(yield func() bool) {
	return func(yield func() bool) {
		for ; n > 0 && r.err == nil && yield(); n-- {
		}
	}
}

// Take returns the next n bytes, or nil.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Fail(fmt.Errorf("%w: a field of %d bytes, %d are left", ErrMalformed, n, len(r.rest)))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Int16 is the next two bytes.
func (r *Reader) Int16() int16 {
	if b := r.Take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 is the next four bytes.
func (r *Reader) Int32() int32 {
	if b := r.Take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 is the next eight bytes.
func (r *Reader) Int64() int64 {
	if b := r.Take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// UUID is an id of a topic.
func (r *Reader) UUID() (id [16]byte) {
	copy(id[:], r.Take(len(id)))
	return id
}

// Uvarint is a number of variable length.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.Fail(fmt.Errorf("%w: a length that cannot be read", ErrMalformed))
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// ShortLen and LongLen are the lengths of strings, and of byte strings and arrays, where they are not compact; negative for
// null.
func (r *Reader) ShortLen() int { return int(r.Int16()) }

// LongLen is the length of a byte string or an array that is not compact.
func (r *Reader) LongLen() int { return int(r.Int32()) }

// CompactLen is the length of a compact string, byte string or array, -1 for null. No element takes less than a byte.
func (r *Reader) CompactLen() int {
	n := r.Uvarint()
	if n > uint64(len(r.rest))+1 {
		r.Fail(fmt.Errorf("%w: %d elements announced, %d bytes are left", ErrMalformed, n-1, len(r.rest)))
		return -1
	}
	return int(n) - 1
}

// ShortString is a string with a length of 16 bits, empty for null.
func (r *Reader) ShortString() string { return string(r.Take(max(0, r.ShortLen()))) }

// LongBytes are bytes with a length of 32 bits, nil for null.
func (r *Reader) LongBytes() []byte { return r.bytes(r.LongLen()) }

// CompactBytes are bytes with a compact length, nil for null.
func (r *Reader) CompactBytes() []byte { return r.bytes(r.CompactLen()) }

// CompactString is a string with a compact length, empty for null.
func (r *Reader) CompactString() string { return string(r.CompactBytes()) }

func (r *Reader) bytes(n int) []byte {
	if n < 0 {
		return nil
	}
	return r.Take(n)
}

// Tags passes over the tagged fields at the end of a flexible structure.
func (r *Reader) Tags() {
	for n := r.Uvarint(); n > 0 && r.err == nil; n-- {
		r.Uvarint() // the tag
		size := r.Uvarint()
		r.Take(int(min(size, uint64(len(r.rest))+1)))
	}
}

// AppendCompactString appends a string as flexible requests have them.
func AppendCompactString(b []byte, s string) []byte {
	return append(AppendCompactLen(b, len(s)), s...)
}

// AppendCompactLen appends the length of a string or an array of a flexible request.
func AppendCompactLen(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)+1) }

// AppendShortString appends a string with a length of 16 bits.
func AppendShortString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// AppendLongBytes appends bytes with a length of 32 bits.
func AppendLongBytes(b, bytes []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(bytes))), bytes...)
}
