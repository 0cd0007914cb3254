package recordbatch

import (
	"fmt"

	"waterwheel/internal/record"
)

const (
	// minRecordBytes is the least size of a record: seven fields of one byte.
	minRecordBytes = 7
	// minHeaderBytes is the least size of a header: two lengths.
	minHeaderBytes = 2
)

// ParseHeaders decodes a record's headers. Their values alias raw.
func ParseHeaders(raw []byte) ([]record.Header, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var parsed []record.Header
	_, end := headers(raw, 0, func(key, value []byte) { parsed = append(parsed, record.Header{Key: string(key), Value: value}) })
	if end != len(raw) {
		return nil, fmt.Errorf("%w: %d bytes of record headers are malformed", ErrCorrupt, len(raw))
	}
	return parsed, nil
}

// headers decodes the headers at an index, which begin with their number, and calls each for every one. It returns their number
// and the index after the last. The index is -1 when the bytes are no headers.
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

// parseRecord decodes a record after its length, with the same strictness as Java's client. Offset and Timestamp remain
// differences to those of the batch.
func parseRecord(r *record.Record, body []byte) bool {
	at := 1 // attributes, of which none is defined
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

// field reads a byte string with a length before it and returns the index of the next field. Any negative length means null. The
// index is -1 when there is no such field.
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

// varint reads a zigzag varint of 32 bits at an index and returns the index after it. The index is -1 when there is none. Bits
// beyond the 32 are dropped. Lengths and differences mostly take one byte.
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

// unsigned reads the groups of seven bits of a number with at most so many bits.
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
