package recordbatch

import (
	"fmt"

	"waterwheel/internal/record"
)

const (
	// minRecordBytes is the least a record takes: seven fields of one byte.
	minRecordBytes = 7
	// minHeaderBytes is the least a header takes: two lengths.
	minHeaderBytes = 2
)

// ParseHeaders reads a record's headers. Values alias raw.
func ParseHeaders(raw []byte) ([]record.Header, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var parsed []record.Header
	_, end := headers(raw, 0, func(key, value []byte) { parsed = append(parsed, record.Header{Key: string(key), Value: value}) })
	if end != len(raw) {
		return nil, fmt.Errorf("%w: %d bytes that are not its headers", ErrCorrupt, len(raw))
	}
	return parsed, nil
}

// headers reads the headers at a place, with their number before them, gives each out, and returns how many there are and
// the place after the last, -1 when they are none.
func headers(b []byte, at int, each func(key, value []byte)) (count, end int) {
	announced, at := varint(b, at)
	if at < 0 || announced < 0 || announced > int64((len(b)-at)/minHeaderBytes) {
		return 0, -1
	}
	for range announced {
		var key, value []byte
		if key, at = field(b, at); key == nil { // a header's key cannot be null
			return 0, -1
		}
		if value, at = field(b, at); at < 0 {
			return 0, -1
		}
		if each != nil {
			each(key, value)
		}
	}
	return int(announced), at
}

// parseRecord reads a record after its length, as Java's client does: what that takes for a record is one here, and what it
// refuses is none. Offset and Timestamp are left as the differences to the batch's own.
func parseRecord(r *record.Record, body []byte) bool {
	at := 1 // attributes: none is defined
	r.Timestamp, at = varlong(body, at)
	r.Offset, at = varint(body, at)
	r.Key, at = field(body, at)
	r.Value, at = field(body, at)
	if at < 0 {
		return false
	}
	count, end := headers(body, at, nil)
	if r.Headers = nil; count > 0 {
		r.Headers = body[at:]
	}
	return end == len(body)
}

// field reads a byte string with its length before it, any negative one for null, and returns where the next field begins,
// -1 when there is no such field.
func field(b []byte, at int) ([]byte, int) {
	size, at := varint(b, at)
	switch {
	case at < 0 || size > int64(len(b)-at):
		return nil, -1
	case size < 0:
		return nil, at
	default:
		end := at + int(size)
		return b[at:end:end], end
	}
}

// varint reads a zigzag varint of 32 bits at a place and returns the place after it, -1 when there is none. Bits beyond the
// 32 are left out. Lengths and differences mostly take one byte.
func varint(b []byte, at int) (int64, int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int64(b[at]>>1) ^ -int64(b[at]&1), at + 1
	}
	v, at := unsigned(b, at, 32)
	return int64(int32(uint32(v)>>1) ^ -int32(v&1)), at
}

// varlong is varint of 64 bits.
func varlong(b []byte, at int) (int64, int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int64(b[at]>>1) ^ -int64(b[at]&1), at + 1
	}
	v, at := unsigned(b, at, 64)
	return int64(v>>1) ^ -int64(v&1), at
}

// unsigned reads the groups of seven bits that a number of so many bits may take.
func unsigned(b []byte, at int, bits uint) (v uint64, next int) {
	if at < 0 {
		return 0, -1
	}
	for shift := uint(0); shift < bits && at < len(b); shift += 7 {
		c := b[at]
		at++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, at
		}
	}
	return 0, -1
}
