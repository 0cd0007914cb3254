package recordbatch

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"waterwheel/internal/record"
)

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
