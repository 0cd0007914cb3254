package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"waterwheel/internal/record"
)

// openBatch is a record batch that is being given out.
type openBatch struct {
	header batchHeader
	last   int64  // last offset of the batch
	raw    []byte // the whole batch as it came
	packed []byte // its records as they came
	plain  []byte // unfolded bytes of the records that are not read yet
	whole  bool   // plain is all that is left
	read   int32  // number of records that were read
	delta  int64  // difference of the last read record's offset to the base offset. -1 means none.

	inPiece  *piece // the piece whose last buffer holds plain. Nil means that no piece does.
	unfolded int64  // number of unfolded bytes of packed, when the batch does not fit into one piece
	chunk    []byte // the buffer of the present piece for these bytes
	clean    int    // number of records in the piece that cannot alias chunk
}

func (o *openBatch) codec() int16 { return o.header.attributes & attributeCodec }

// records gives out records from offset d.next on until the piece is full. True means that the record batch was read to its end.
func (d *decoder) records(p *piece, most Piece) (done bool, err error) {
	o := d.open
	o.chunk = nil
	defer func() { o.leave(p) }()
	p.records = slices.Grow(p.records, min(int(o.header.count-o.read), most.Records-len(p.records)))
	for o.read < o.header.count {
		if len(p.records) >= most.Records || p.bytes >= most.Bytes {
			return false, nil
		}
		size, from := varint(o.plain, 0)
		if from < 0 || size < 0 || size > int64(len(o.plain)-from) {
			full, err := d.refill(p, most, size, from)
			if err != nil || full {
				return false, err
			}
			continue
		}
		end := from + int(size)
		if err := d.give(p, o.plain[from:end:end], o.plain[end:]); err != nil {
			return false, err
		}
		o.plain = o.plain[end:]
	}
	return true, nil
}

// give appends one record, unless its offset is before d.next. The last record is given out only if no bytes follow it.
func (d *decoder) give(p *piece, body, rest []byte) error {
	o := d.open
	p.records = append(p.records, record.Record{})
	r := &p.records[len(p.records)-1]
	var err error
	if !parseRecord(r, body) {
		err = o.malformed()
	}
	if err == nil {
		err = d.place(r, rest)
	}
	if err != nil || r.Offset < d.next {
		p.records = p.records[:len(p.records)-1]
		return err
	}
	p.bytes += len(body)
	d.next = r.Offset + 1
	return nil
}

// place turns a record's differences into an offset and a time. Only the last record may have the last offset. Otherwise an error
// after that offset would be skipped, because nothing asks for the offset again.
func (d *decoder) place(r *record.Record, rest []byte) error {
	o := d.open
	last := o.read+1 == o.header.count
	if most := int64(o.header.lastDelta); r.Offset <= o.delta || r.Offset > most || r.Offset == most && !last {
		return o.malformed()
	}
	if last {
		if err := d.ends(rest); err != nil {
			return err
		}
	}
	o.read++
	o.delta = r.Offset
	r.Offset += o.header.base
	r.Timestamp = o.header.time(r.Timestamp)
	return nil
}

func (o *openBatch) malformed() error {
	return fmt.Errorf("%w: record %d of %d is malformed", ErrCorrupt, o.read+1, o.header.count)
}

// ends fails when bytes follow the last record.
func (d *decoder) ends(rest []byte) error {
	o := d.open
	if len(rest) == 0 && !o.whole {
		n, err := d.unfolders.read(o, make([]byte, 1))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if rest = make([]byte, n); n > 0 {
			o.unfolded -= int64(n)
			d.unfolders.forget(o) // the next read must read these bytes again
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the last of %d records", ErrCorrupt, len(rest), o.header.count)
	}
	return nil
}

// refill unfolds more of the record batch, behind the unread bytes. size is the next record's length, and from is where the
// record starts, as far as they are known. True means that this piece has no room left.
func (d *decoder) refill(p *piece, most Piece, size int64, from int) (full bool, err error) {
	o := d.open
	none := size < 0 || size > maxBatchBytes
	if from < 0 { // the length is incomplete, or no number
		none = len(o.plain) >= binary.MaxVarintLen32
	}
	if o.whole || none {
		return false, fmt.Errorf("%w: record %d of %d is truncated", ErrCorrupt, o.read+1, o.header.count)
	}
	if o.chunk == nil {
		d.newChunk(p, max(most.Bytes, minChunk))
	}
	if len(o.chunk) == cap(o.chunk) {
		switch {
		case len(p.records) > o.clean: // the records lie in the buffer
			return true, nil
		case len(o.plain) < cap(o.chunk):
			o.chunk = o.chunk[:copy(o.chunk, o.plain)] // use the buffer again from its beginning
			o.plain = o.chunk
		case from+int(size) > d.options.RecordBytes:
			return false, d.cut(p, size, from)
		default:
			d.newChunk(p, from+int(size))
		}
	}
	have := len(o.chunk)
	n, err := d.unfolders.read(o, o.chunk[have:cap(o.chunk)])
	o.chunk = o.chunk[:have+n]
	o.plain = o.chunk[have-len(o.plain):]
	if errors.Is(err, io.EOF) {
		o.whole, err = true, nil
	}
	return false, err
}

// minChunk is the least that is unfolded at a time, in bytes.
const minChunk = 16 << 10

// newChunk takes another buffer for unfolded bytes. It begins with the unread bytes.
func (d *decoder) newChunk(p *piece, size int) {
	o := d.open
	buffer := p.nextPlain()
	*buffer = slices.Grow((*buffer)[:0], max(size, len(o.plain)))
	o.chunk, o.clean = append(*buffer, o.plain...), len(p.records)
	o.plain = o.chunk
}

// leave moves the unread bytes out of the piece.
func (o *openBatch) leave(p *piece) {
	switch {
	case o.chunk != nil:
		o.plain, o.chunk = slices.Clone(o.plain), nil
	case o.inPiece == p && len(o.plain) > 0:
		p.keepPlain()
	}
	o.inPiece = nil
}
