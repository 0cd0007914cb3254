package bucketer

import (
	"encoding/binary"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxAlike bounds the measurements whose columns gatherAlike makes, so that their indexes have at most five digits.
const maxAlike = 100_000

// index is the text of a value's index with its terminating NUL, as it stands in a column. The lowest byte is left free for the
// type. The highest byte is the length in bytes, including the type.
type index uint64

// loadIndexes makes the indexes below n that do not exist yet.
func (e *encoder) loadIndexes(n int) {
	for at := len(e.indexes); at < n; at++ {
		made, size := uint64(0), uint64(2)
		for rest := at; size == 2 || rest > 0; rest /= 10 {
			made = made<<8 | uint64('0'+rest%10)
			size++
		}
		e.indexes = append(e.indexes, index(made<<8|size<<56))
	}
}

// appendHead appends the type and the index of a value.
func (i index) appendHead(dst []byte, kind bson.Type) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(i)|uint64(kind))[:len(dst)+int(i>>56)]
}

// gatherAlike is gather for a new bucket whose measurements all have the layout of its shape, with all its fields. Then the
// values of a field lie at equal distances, so columns are made one after the other. False means that the measurements are not
// alike, and nothing was done.
func (e *encoder) gatherAlike(b *bucket) bool {
	buf, n := b.pending.buf, int(b.pending.n)
	layout := &b.shape.layout
	if b.stored > 0 || n >= maxAlike || int(layout.survey.fields) != len(b.shape.members) {
		return false
	}
	for rest := buf; len(rest) > 0; {
		var r row
		if r, rest = readRow(rest); !layout.fits(r.elements) {
			return false
		}
	}
	e.load(b)
	e.loadIndexes(n)
	e.positions, e.times, e.merged, e.maxTime = e.positions[:0], e.times[:0], e.merged[:0], b.maxTime
	stride, at := rowHeader+layout.size, 0
	for rest := buf; len(rest) > 0; at++ {
		var r row
		r, rest = readRow(rest)
		e.note(r, at == 0)
		e.times = appendInt64(e.indexes[at].appendHead(e.times, bson.TypeDateTime), r.time)
	}
	first, _ := readRow(buf)
	for at, rest := 0, first.elements; len(rest) > 0; at++ {
		_, start, end := b.shape.field(rest, at)
		kind, offset := bson.Type(rest[0]), rowHeader+layout.size-len(rest)+start
		rest = rest[end:]
		if kind != bson.TypeDouble || !e.gatherDoubles(at, buf, offset, stride) {
			e.gatherColumn(at, kind, buf, offset, offset+end-start, stride)
		}
	}
	return true
}

// gatherDoubles makes the column of a field that is a double at each stride of buf, from offset on. False means that there is a
// NaN.
func (e *encoder) gatherDoubles(at int, buf []byte, offset, stride int) bool {
	column := slices.Grow(e.columns[at][:0], len(buf)/stride*(8+8)+8)
	least := math.Float64frombits(binary.LittleEndian.Uint64(buf[offset:]))
	most, leastAt, mostAt := least, offset, offset
	for n := 0; offset < len(buf); n, offset = n+1, offset+stride {
		bits := binary.LittleEndian.Uint64(buf[offset:])
		column = binary.LittleEndian.AppendUint64(e.indexes[n].appendHead(column, bson.TypeDouble), bits)
		switch v := math.Float64frombits(bits); {
		case v < least:
			least, leastAt = v, offset
		case v > most:
			most, mostAt = v, offset
		case v != v:
			return false
		}
	}
	e.columns[at] = column
	x := &e.fields[at]
	x.lower = value{bson.TypeDouble, buf[leastAt : leastAt+8 : leastAt+8]}
	x.upper = value{bson.TypeDouble, buf[mostAt : mostAt+8 : mostAt+8]}
	x.lowered, x.raised = true, true
	return true
}

// gatherColumn makes the column of a field that lies between start and end of each stride of buf.
func (e *encoder) gatherColumn(at int, kind bson.Type, buf []byte, start, end, stride int) {
	column, x := e.columns[at][:0], &e.fields[at]
	for n := range len(buf) / stride { // a null has no bytes, so start may be the end of buf
		data := buf[start:end:end]
		e.merged = x.include(value{kind, data}, e.merged)
		column = appendData(e.indexes[n].appendHead(column, kind), data)
		start, end = start+stride, end+stride
	}
	e.columns[at] = column
}
