package bucketer

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// encoder makes the writes of buckets from their pending measurements. Everything but arena is scratch that each write uses
// again.
type encoder struct {
	timeField string
	maxPath   string // path of the time in control.max
	source    timeseries.Source
	forms     forms

	fields       []extremes // by the bucket's shape
	columns      [][]byte   // by the bucket's shape: elements of an insert's data
	times        []byte     // elements of an insert's column of times; for an only measurement just its time
	places       []byte     // elements of an update's $set for data: each value under the path of its place
	shape        *shape     // the shape that prefixes belong to
	prefixes     []byte
	prefixEnds   []int
	positions    []timeseries.Position
	indexes      []index
	merged       []byte // merged extremes, which are not the value of any one measurement
	bounds       []byte // the new bounds, lower and upper
	lower, upper []byte // the elements of the new bounds
	path         []byte
	out          []byte // where the write is made: in the arena or in large
	large        []byte

	maxTime     int64
	first, last int64 // smallest and largest offset

	segment    *segmentWrite   // the segment whose write is made. Nil means that the write is a bucket's.
	compaction *CompactionMark // written into every bucket. Nil means none.

	arena arena
}

func newEncoder(timeField string, source timeseries.Source, compaction *CompactionMark) encoder {
	return encoder{
		compaction: compaction, timeField: timeField, maxPath: timeseries.MaxPath(timeField),
		source: source, forms: newForms(timeField, source),
	}
}

// bytes is the memory of the scratch.
func (e *encoder) bytes() int64 {
	total := cap(e.times) + cap(e.places) + cap(e.merged) + cap(e.bounds) + cap(e.path) + cap(e.large) +
		cap(e.prefixes) + cap(e.prefixEnds)*8 + cap(e.positions)*16 + cap(e.indexes)*8 + cap(e.fields)*extremesBytes + cap(e.columns)*24
	for _, column := range e.columns[:cap(e.columns)] {
		total += cap(column)
	}
	return int64(total)
}

// maxScratch is how many bytes of scratch stay from one flush to the next.
const maxScratch = 1 << 20

// maxDirect is the largest estimated size of a write that is made in the arena itself. Larger ones are made in scratch and
// copied, because their final size is not known before.
const maxDirect = 8 << 10

// rest ends a flush and returns its memory. Scratch that very large measurements have enlarged is left to the garbage
// collector.
func (e *encoder) rest() arena {
	e.arena.seal()
	made := e.arena
	e.arena, e.shape, e.out = arena{}, nil, nil
	if e.bytes() > maxScratch {
		*e = newEncoder(e.timeField, e.source, e.compaction)
	}
	return made
}

// encode makes the write of a bucket, with its pending measurements and its close. The bucket has the new bounds afterwards.
// The argument closes sets control.closed. The argument left is how many writes may still follow, including this one.
func (e *encoder) encode(c *Catalog, b *bucket, closes bool, left int) *Write {
	w := e.arena.write(&c.spare, left)
	need := 3*len(b.pending.buf) + 2*(len(b.bounds)+len(b.series.key)) + 1024 // hardly any write is larger
	if need <= maxDirect {
		e.arena.reserve(&c.spare, need)
		e.out = e.arena.block
		e.fill(c, b, w, closes)
		e.arena.filled(e.out)
		return w
	}
	e.out = e.large[:0]
	e.fill(c, b, w, closes)
	e.large = e.out
	w.Meta.Value = e.arena.put(&c.spare, w.Meta.Value)
	w.Offsets = e.arena.put(&c.spare, w.Offsets)
	w.Document = e.arena.put(&c.spare, w.Document)
	w.Filter = e.arena.put(&c.spare, w.Filter)
	return w
}

// fill makes a write at the end of out.
func (e *encoder) fill(c *Catalog, b *bucket, w *Write, closes bool) {
	e.gather(b)
	w.Kind, w.ID, w.MinTime, w.Closes = Update, b.id, b.minTime, closes
	w.Added, w.Count = b.pending.n, b.count()
	switch key := b.series.key; {
	case e.segment != nil:
		w.Meta = timeseries.SegmentMetaOf(b.id)
	case key != "":
		start := len(e.out)
		e.out = append(e.out, key[1:]...)
		w.Meta = bson.RawValue{Type: bson.Type(key[0]), Value: e.made(start)}
	}
	if w.Added > 0 {
		start := len(e.out)
		e.out = timeseries.AppendPositions(e.out, e.positions)
		w.Offsets, w.First = e.made(start), e.first
	}
	if b.stored == 0 {
		w.Kind = Insert
		if w.Count > 1 {
			e.buildBounds(b)
		}
		e.insert(b, w)
		if e.segment == nil {
			c.setBounds(b, e.bounds)
		}
	} else {
		e.update(b, w)
		e.filter(b, w)
		if !e.widenBounds(b) {
			e.buildBounds(b)
			c.setBounds(b, e.bounds)
		}
	}
	b.maxTime = e.maxTime
}

// made returns the bytes that were appended since start.
func (e *encoder) made(start int) []byte { return e.out[start:len(e.out):len(e.out)] }

// gather walks the rows that wait for a bucket. It collects extremes and positions, and for an insert the columns, for an
// update the places of the values.
func (e *encoder) gather(b *bucket) {
	if b.stored == 0 && b.pending.n == 1 {
		e.gatherOnly(b)
		return
	}
	if e.gatherAlike(b) {
		return
	}
	e.load(b)
	e.positions, e.times, e.places, e.merged = e.positions[:0], e.times[:0], e.places[:0], e.merged[:0]
	e.maxTime = b.maxTime
	var index [10]byte
	for at, rest := b.stored, b.pending.buf; len(rest) > 0; at++ {
		var r row
		r, rest = readRow(rest)
		e.note(r, at == b.stored)
		digits := append(strconv.AppendInt(index[:0], int64(at), 10), 0)
		if b.stored == 0 {
			e.times = append(append(e.times, byte(bson.TypeDateTime)), digits...)
			e.times = appendInt64(e.times, r.time)
		} else {
			e.places = appendPlace(e.places, bson.TypeDateTime, e.prefix(-1), digits)
			e.places = appendInt64(e.places, r.time)
		}
		e.gatherFields(b, r.elements, digits)
	}
}

// gatherOnly is gather for the only measurement of a bucket. Its fields are those of the shape, in the same order, and its
// elements are both bounds.
func (e *encoder) gatherOnly(b *bucket) {
	r, _ := readRow(b.pending.buf)
	e.positions, e.maxTime = e.positions[:0], b.maxTime
	e.note(r, true)
	e.times = appendInt64(e.times[:0], r.time)
	e.lower, e.upper = r.elements, r.elements
	e.bounds = appendFields(e.bounds[:0], r.elements)
}

func (e *encoder) gatherFields(b *bucket, elements, index []byte) {
	hint := 0
	for rest := elements; len(rest) > 0; {
		at, start, end := b.shape.field(rest, hint)
		hint = at + 1
		kind, data := bson.Type(rest[0]), rest[start:end]
		rest = rest[end:]
		e.merged = e.fields[at].include(value{kind, data}, e.merged)
		if b.stored == 0 {
			e.columns[at] = appendData(append(append(e.columns[at], byte(kind)), index...), data)
		} else {
			e.places = appendData(appendPlace(e.places, kind, e.prefix(at), index), data)
		}
	}
}

// note notes the position and the time of a row.
func (e *encoder) note(r row, first bool) {
	offset := r.position.Offset
	if first {
		e.first, e.last = offset, offset
	}
	e.first, e.last = min(e.first, offset), max(e.last, offset)
	e.maxTime = max(e.maxTime, r.time)
	e.positions = append(e.positions, r.position)
}

// load prepares the scratch for a bucket's fields and reads the present bounds.
func (e *encoder) load(b *bucket) {
	n := len(b.shape.members)
	if cap(e.fields) < n {
		e.fields = make([]extremes, n, 2*n)
		e.columns = append(e.columns[:cap(e.columns)], make([][]byte, 2*n-cap(e.columns))...)
	}
	e.fields, e.columns = e.fields[:n], e.columns[:n]
	if b.stored == 0 {
		clear(e.fields)
		for at := range e.columns {
			e.columns[at] = e.columns[at][:0]
		}
		return
	}
	e.loadPrefixes(b.shape)
	lower, upper := b.splitBounds()
	at := 0
	for ; len(lower) > 0; at++ {
		x, name := &e.fields[at], len(b.shape.members[at].name)
		x.lower, lower = readValue(lower, name)
		x.upper, upper = readValue(upper, name)
		x.knownLower, x.knownUpper, x.lowered, x.raised = x.lower, x.upper, false, false
	}
	clear(e.fields[at:])
}

// widenBounds writes the new bounds over the bucket's bounds, in place. False means that a bound has another size now, or that
// equal bounds have become different.
func (e *encoder) widenBounds(b *bucket) bool {
	same := b.hasOneBound()
	for at := range e.fields {
		x := &e.fields[at]
		if same && (x.lowered && !x.lower.equals(x.knownLower) || x.raised && !x.upper.equals(x.knownUpper)) {
			return false
		}
		if !same && (x.lowered && !x.lower.replaces(x.knownLower) || x.raised && !x.upper.replaces(x.knownUpper)) {
			return false
		}
	}
	return true
}

// replaces writes v over a kept value of the same type and size. False means that type or size differ.
func (v value) replaces(kept value) bool {
	if v.kind != kept.kind || len(v.data) != len(kept.data) {
		return false
	}
	copy(kept.data, v.data)
	return true
}

// buildBounds builds the new bounds, as two documents without the time.
func (e *encoder) buildBounds(b *bucket) {
	dst := append(e.bounds[:0], 0, 0, 0, 0)
	for at := range e.fields {
		dst = appendNamed(dst, e.fields[at].lower, b.shape.members[at].name)
	}
	dst = rawbson.EndDocument(dst, 0)
	size := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for at := range e.fields {
		dst = appendNamed(dst, e.fields[at].upper, b.shape.members[at].name)
	}
	dst = rawbson.EndDocument(dst, size)
	e.bounds, e.lower, e.upper = dst, rawbson.Content(dst[:size]), rawbson.Content(dst[size:])
}

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
