package bucketer

import "math"

// line is the measurements of a series that wait for a look-up, in the order they are to be placed. One that has to ask
// again goes back to the front, and the measurements behind it stay where they are: a batch in which each measurement asks is not
// copied as a whole for each.
type line struct {
	front, came fifo
	last        int64 // offset of the last in came
	mixed       bool  // the offsets in came do not ascend
}

// fifo is rows that are taken out at the front.
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

// next takes the first measurement out. False means that there is none. It stays readable until the next push or release.
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
			break // the others came later
		}
	}
	return offset, ok
}

// follow puts the rest of an older line, which it takes, behind this one, to which was only pushed.
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
