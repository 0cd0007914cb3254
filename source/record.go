package source

import "fmt"

// Record is one record of a partition. Its bytes are the batch's: valid until Release.
type Record struct {
	Offset int64
	// Timestamp is in milliseconds since 1970: the producer's, or the broker's where the topic says LogAppendTime.
	Timestamp int64
	// Key and Value are nil where Kafka has null, and empty where Kafka has an empty one.
	Key, Value []byte
	// RawHeaders are the headers as the log has them, nil without any. ParseHeaders reads them.
	RawHeaders []byte
}

// Header is one header of a record. Keys may repeat, and order counts.
type Header struct {
	Key string
	// Value is nil where Kafka has null.
	Value []byte
}

const (
	// minRecordBytes is the least a record takes: seven fields of one byte.
	minRecordBytes = 7
	// minHeaderBytes is the least a header takes: two lengths.
	minHeaderBytes = 2
)

// ParseHeaders reads a record's headers. Values alias raw.
func ParseHeaders(raw []byte) ([]Header, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	count, at := varint(raw, 0)
	if at < 0 || count < 0 || count > int64(len(raw)/minHeaderBytes) {
		return nil, fmt.Errorf("%w: %d headers in %d bytes", ErrCorrupt, count, len(raw))
	}
	headers := make([]Header, count)
	for i := range headers {
		var key []byte
		key, at = field(raw, at)
		headers[i].Key = string(key)
		headers[i].Value, at = field(raw, at)
		if at < 0 || key == nil {
			return nil, fmt.Errorf("%w: header %d of %d ends early or has no key", ErrCorrupt, i+1, count)
		}
	}
	if at != len(raw) {
		return nil, fmt.Errorf("%w: %d bytes after the last of %d headers", ErrCorrupt, len(raw)-at, count)
	}
	return headers, nil
}

// parse reads a record after its length. Offset and Timestamp are left as the differences to the batch's own.
func (r *Record) parse(body []byte) bool {
	at := 1 // attributes: none is defined
	r.Timestamp, at = varint(body, at)
	r.Offset, at = varint(body, at)
	r.Key, at = field(body, at)
	r.Value, at = field(body, at)
	if at < 0 || at == len(body) {
		return false
	}
	r.RawHeaders = nil
	if body[at] != 0 {
		r.RawHeaders = body[at:]
		return true
	}
	return at+1 == len(body)
}

// field reads a byte string with its length before it, -1 for null, and returns where the next field begins, -1 when
// there is no such field.
func field(b []byte, at int) ([]byte, int) {
	size, at := varint(b, at)
	switch {
	case at < 0 || size < -1 || size > int64(len(b)-at):
		return nil, -1
	case size < 0:
		return nil, at
	default:
		end := at + int(size)
		return b[at:end:end], end
	}
}

// varint reads a zigzag varint at a place and returns the place after it, -1 when there is none. Lengths and
// differences mostly take one byte.
func varint(b []byte, at int) (int64, int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int64(b[at]>>1) ^ -int64(b[at]&1), at + 1
	}
	return longVarint(b, at)
}

func longVarint(b []byte, at int) (int64, int) {
	if at < 0 {
		return 0, -1
	}
	var v uint64
	for shift := uint(0); shift < 64 && at < len(b); shift += 7 {
		c := b[at]
		at++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(v>>1) ^ -int64(v&1), at
		}
	}
	return 0, -1
}
