package bucketer

import (
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

	segment    *segment    // the segment whose write is made. Nil means that the write is a bucket's.
	compaction *Compaction // written into every bucket. Nil means none.

	arena arena
}

func newEncoder(timeField string, source timeseries.Source, compaction *Compaction) encoder {
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
