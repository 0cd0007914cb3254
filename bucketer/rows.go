package bucketer

import (
	"encoding/binary"
	"math"
	"math/bits"

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

// Buffers have powers of two as sizes. Buffers larger than maxPooled are left to the garbage collector.
const (
	minBuffer = 128
	maxPooled = 64 << 10
)

// buffers hands out the memory of rows and takes it back, so that a warmed-up catalog allocates none.
type buffers struct {
	free  [10][][]byte // by class: 128 bytes to 64 KiB
	idle  int64        // bytes in free
	total int64        // bytes handed out and in free
}

// class is the index in free of buffers that hold n bytes.
func class(n int) int { return max(0, bits.Len(uint(n-1))-bits.Len(minBuffer-1)) }

// grow returns a buffer with the content of b and room for n more bytes, and takes b back.
func (p *buffers) grow(b []byte, n int) []byte {
	size := max(minBuffer, 1<<bits.Len(uint(len(b)+n-1)))
	grown := append(p.take(size), b...)
	p.release(b)
	return grown
}

// take hands out an empty buffer of this size, a power of two.
func (p *buffers) take(size int) []byte {
	if size <= maxPooled {
		if list := &p.free[class(size)]; len(*list) > 0 {
			last := len(*list) - 1
			b := (*list)[last]
			*list = (*list)[:last]
			p.idle -= int64(size)
			return b
		}
	}
	p.total += int64(size)
	return make([]byte, 0, size)
}

// release takes a buffer back. Its content must not be used any more.
func (p *buffers) release(b []byte) {
	size := cap(b)
	switch {
	case size == 0:
	case size > maxPooled:
		p.total -= int64(size)
	default:
		p.free[class(size)] = append(p.free[class(size)], b[:0])
		p.idle += int64(size)
	}
}

// trim leaves all buffers that are not in use to the garbage collector.
func (p *buffers) trim() {
	p.free = [len(p.free)][][]byte{}
	p.total -= p.idle
	p.idle = 0
}
