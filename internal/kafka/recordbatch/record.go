package recordbatch

import (
	"errors"
	"fmt"
	"io"
	"slices"

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

// keptKey, keptValue and keptHeaders bound what is kept of a record that is too long to be unfolded whole. Key and value are cut
// to these sizes. Headers beyond their size are dropped.
const (
	keptKey     = 64 << 10
	keptValue   = 512 << 10
	keptHeaders = 64 << 10
)

// cut gives out the beginning of a record that is too long to be unfolded whole, and skips the rest. size is the record's length
// without its length field. The record begins at index from of the unread bytes.
func (d *decoder) cut(p *piece, size int64, from int) error {
	o := d.open
	before, unfolded := slices.Clone(o.plain), o.unfolded
	o.plain = o.plain[from:]
	long := longRecord{d: d, left: size}
	r := long.read()
	err := long.err
	if err == nil && long.left != 0 {
		err = o.malformed()
	}
	if err == nil {
		err = d.place(&r, o.plain)
	}
	if err != nil { // the record must be found again
		d.unfolders.forget(o)
		o.plain, o.chunk, o.unfolded, o.whole = before, nil, unfolded, false
		return err
	}
	if r.Offset < d.next {
		return nil
	}
	p.records = append(p.records, r)
	p.bytes += len(r.Key) + len(r.Value) + len(r.Headers)
	d.next = r.Offset + 1
	return nil
}

// longRecord reads the fields of a record piece by piece.
type longRecord struct {
	d    *decoder
	left int64 // bytes of the record that are not read yet
	err  error
}

func (l *longRecord) read() record.Record {
	r := record.Record{Cut: l.left}
	l.bytes(1, 0) // attributes
	r.Timestamp, r.Offset = l.number(varlong), l.number(varint)
	r.Key = l.field(keptKey)
	r.Value = l.field(keptValue)
	size := l.left
	raw := l.bytes(size, keptHeaders)
	if l.err != nil || size > keptHeaders {
		return r
	}
	count, end := headers(raw, 0, nil)
	if count > 0 {
		r.Headers = raw
	}
	if end != len(raw) {
		l.fail(l.d.open.malformed())
	}
	return r
}

// field reads the beginning of a byte string with a length before it. It is nil for null, which is any negative length.
func (l *longRecord) field(most int) []byte {
	size := l.number(varint)
	if size < 0 {
		return nil
	}
	if size > l.left {
		l.fail(l.d.open.malformed())
		return nil
	}
	return l.bytes(size, most)
}

// number reads a number in the form that parse decodes.
func (l *longRecord) number(parse func([]byte, int) (int64, int)) int64 {
	var encoded []byte
	for len(encoded) < 10 {
		if encoded = append(encoded, l.bytes(1, 1)...); l.err != nil {
			return 0
		}
		if encoded[len(encoded)-1] < 0x80 {
			v, at := parse(encoded, 0)
			if at < 0 {
				break
			}
			return v
		}
	}
	l.fail(l.d.open.malformed())
	return 0
}

// bytes skips n bytes and returns a copy of at most the first most of them.
func (l *longRecord) bytes(n int64, most int) []byte {
	if l.err == nil && (n < 0 || n > l.left) {
		l.fail(l.d.open.malformed())
	}
	kept := []byte{}
	for l.err == nil && n > 0 {
		piece := l.piece()
		piece = piece[:min(int64(len(piece)), n)]
		kept = append(kept, piece[:min(len(piece), most-len(kept))]...)
		l.d.open.plain = l.d.open.plain[len(piece):]
		n -= int64(len(piece))
		l.left -= int64(len(piece))
	}
	return kept
}

// piece returns the unread bytes at hand. It is at least one byte unless there is an error.
func (l *longRecord) piece() []byte {
	o := l.d.open
	if len(o.plain) > 0 {
		return o.plain
	}
	n, err := l.d.unfolders.read(o, o.chunk[:cap(o.chunk)])
	o.chunk = o.chunk[:n]
	o.plain = o.chunk
	switch {
	case errors.Is(err, io.EOF):
		o.whole = true
	case err != nil:
		l.fail(err)
	}
	if n == 0 {
		l.fail(fmt.Errorf("%w: record %d of %d is truncated", ErrCorrupt, o.read+1, o.header.count))
	}
	return o.plain
}

func (l *longRecord) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}
