package bucketer

import (
	"encoding/binary"
	"math"

	"waterwheel/internal/timeseries"
)

// rowHeader is the size of a row before its elements: offset, time, part, length of the elements.
const rowHeader = 8 + 8 + 4 + 4

// row is one measurement in memory. Its elements point into the rows that it was read from, or into the caller's measurement.
type row struct {
	position timeseries.Position
	time     int64
	elements []byte
}

// size is the number of bytes of the row in rows.
func (r row) size() int { return rowHeader + len(r.elements) }

// rows are measurements one after the other, in the order in which they came. A flush makes columns of them. Until then,
// keeping a measurement takes one copy, and taking it back out of its bucket takes none.
type rows struct {
	buf []byte // from buffers
	n   int32
}

// push appends a copy of r.
func (rs *rows) push(r row, from *buffers) {
	buf := rs.buf
	if cap(buf)-len(buf) < r.size() {
		buf = from.grow(buf, r.size())
	}
	buf = binary.LittleEndian.AppendUint64(buf, uint64(r.position.Offset))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(r.time))
	buf = binary.LittleEndian.AppendUint32(buf, uint32(r.position.Part))
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(r.elements)))
	rs.buf = append(buf, r.elements...)
	rs.n++
}

// readRow reads the first row of the bytes of rows and returns what follows it.
func readRow(buf []byte) (row, []byte) {
	header, size := buf[:rowHeader], int(binary.LittleEndian.Uint32(buf[20:]))
	return row{
		position: timeseries.Position{
			Offset: int64(binary.LittleEndian.Uint64(header)),
			Part:   int32(binary.LittleEndian.Uint32(header[16:])),
		},
		time:     int64(binary.LittleEndian.Uint64(header[8:])),
		elements: buf[rowHeader : rowHeader+size : rowHeader+size],
	}, buf[rowHeader+size:]
}

// all yields the rows in their order.
func (rs rows) all(yield func(row) bool) {
	for rest := rs.buf; len(rest) > 0; {
		var r row
		if r, rest = readRow(rest); !yield(r) {
			return
		}
	}
}

// oldest is the smallest offset of the rows. Without rows it is math.MaxInt64.
func (rs rows) oldest() int64 {
	oldest := int64(math.MaxInt64)
	for r := range rs.all {
		oldest = min(oldest, r.position.Offset)
	}
	return oldest
}

// line holds the measurements of a series that wait for a look-up, in the order in which they will be placed. A measurement
// that has to ask again goes back to the front, and those behind it stay where they are. So a batch in which each measurement
// asks is not copied for each of them.
type line struct {
	front, came fifo
	last        int64 // offset of the last measurement in came
	mixed       bool  // the offsets in came are not ascending
}

// fifo holds rows that are taken out at the front.
type fifo struct {
	rows
	gone int // bytes of rows that were taken
}

func (f *fifo) rest() []byte { return f.buf[f.gone:] }

func (f *fifo) next() row {
	r, _ := readRow(f.rest())
	f.gone += r.size()
	return r
}

// push adds a measurement at the end of the line.
func (l *line) push(r row, from *buffers) {
	f := &l.came
	if len(f.rest()) == 0 {
		f.buf, f.gone = f.buf[:0], 0
		l.mixed, l.last = false, math.MinInt64
	} else if cap(f.buf)-len(f.buf) < r.size() && f.gone > len(f.buf)/2 {
		f.buf, f.gone = f.buf[:copy(f.buf, f.rest())], 0
	}
	l.mixed = l.mixed || r.position.Offset < l.last
	l.last = r.position.Offset
	f.push(r, from)
}

// next takes the first measurement out. False means that there is none. The row stays valid until the next push or release.
func (l *line) next() (row, bool) {
	switch {
	case len(l.front.rest()) > 0:
		return l.front.next(), true
	case len(l.came.rest()) > 0:
		return l.came.next(), true
	}
	return row{}, false
}

// all yields the measurements without taking them out.
func (l *line) all(yield func(row) bool) {
	for _, part := range [...]rows{{buf: l.front.rest()}, {buf: l.came.rest()}} {
		for r := range part.all {
			if !yield(r) {
				return
			}
		}
	}
}

// oldest is the smallest offset of the measurements. False means that there is none.
func (l *line) oldest() (offset int64, ok bool) {
	offset = math.MaxInt64
	for r := range l.all {
		offset, ok = min(offset, r.position.Offset), true
		if !l.mixed && len(l.front.rest()) == 0 {
			break // later measurements have larger offsets
		}
	}
	return offset, ok
}

// follow puts the rest of an older line behind this one, and takes it over. This line must only have been pushed to.
func (l *line) follow(older *line, from *buffers) {
	front := l.came
	for len(older.front.rest()) > 0 {
		front.push(older.front.next(), from)
	}
	from.release(older.front.buf)
	*l = line{front: front, came: older.came, last: older.last, mixed: older.mixed}
}

// release gives the memory of the line back.
func (l *line) release(to *buffers) {
	to.release(l.front.buf)
	to.release(l.came.buf)
	*l = line{}
}
