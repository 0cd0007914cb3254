package bucketer

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

const (
	// segmentAttempt is added to the attempt number in a segment's _id, because a bucket may begin with the same measurement
	// later.
	segmentAttempt = 1 << 30
	// openSegments is how many segments are filled at the same time, because measurements with types or times that do not go
	// together may alternate.
	openSegments = 4
)

// sparse are measurements of one series on their way into segments.
type sparse struct {
	order []byte // the place of the series in the order of series
	key   string
	span  int64 // number of the time span of the measurements, if a flush has several spans
	rows  rows
}

func (s *sparse) compare(o *sparse) int {
	return cmp.Or(cmp.Compare(s.span, o.span), bytes.Compare(s.order, o.order), cmp.Compare(s.key, o.key))
}

// segmentWrite is a document of many series that is being made. Its bucket belongs to no series, and is not in the catalog.
type segmentWrite struct {
	bucket
	low, high []byte // places of its first and its last series
	owner     string
	first     timeseries.Position // of the first measurement that came into it
	earliest  int64               // the smallest time of its measurements
	bloom     timeseries.Bloom    // of the metas of its series
	last      *sparse             // the series whose meta came into bloom last
}

// noSeries stands for the series of a segment.
var noSeries = &series{}

// isSparse reports whether the measurements that wait for a bucket go into segments. If a stored bucket must be closed, they go
// into the write that closes it.
func (c *Catalog) isSparse(b *bucket) bool {
	return b.pending.n > 0 && b.pending.n < c.options.DenseFrom && !b.is(isAlone) && (b.stored == 0 || !b.mustClose()) &&
		!c.keptOut.has(b.series.key) && !c.hasArray(b.series.key)
}

// moveToSegments moves the measurements that wait for a bucket into the flush's segments. It forgets the bucket, because its
// fields and its size no longer match its stored document.
func (c *Catalog) moveToSegments(f *flight, b *bucket) {
	s := b.series
	f.sparse = append(f.sparse, sparse{key: s.key, rows: c.abandon(b)})
	c.retire(s)
}

// cutSegments cuts the segments of a flush, one span of time after the other, because no segment has more than one span.
func (c *Catalog) cutSegments(f *flight) {
	if len(f.sparse) == 0 {
		return
	}
	var orders []byte
	for i := range f.sparse {
		start := len(orders)
		orders = c.appendOrder(orders, f.sparse[i].key)
		f.sparse[i].order = orders[start:len(orders):len(orders)]
	}
	if earliest, latest := timesOf(f.sparse); spanExceeded(latest, c.options.Collection.Round(earliest), c.span) {
		f.sparse = c.bySpan(f.sparse)
	}
	slices.SortFunc(f.sparse, func(a, b sparse) int { return a.compare(&b) })
	total := int32(0)
	for i := range f.sparse {
		total += f.sparse[i].rows.n
	}
	most := c.borders.most(total, c.segmentRows())
	for rest := f.sparse; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].span == rest[0].span {
			n++
		}
		begin := 0
		for _, end := range c.borders.divide(rest[:n], most) {
			c.cutPart(f, rest[begin:end])
			begin = end
		}
		rest = rest[n:]
	}
	c.borders.flushed()
	f.sparse = nil
}

// segmentRows is the largest number of measurements in a segment.
func (c *Catalog) segmentRows() int32 {
	return min(cmp.Or(c.options.SegmentRows, math.MaxInt32), c.options.Limits.MaxCount)
}

// timesOf returns the smallest and the largest time of measurements.
func timesOf(all []sparse) (earliest, latest int64) {
	earliest, latest = math.MaxInt64, math.MinInt64
	for i := range all {
		for r := range all[i].rows.all {
			earliest, latest = min(earliest, r.time), max(latest, r.time)
		}
	}
	return earliest, latest
}

// bySpan divides the measurements of each series by spans of time. A backfill has several spans.
func (c *Catalog) bySpan(all []sparse) (divided []sparse) {
	for i := range all {
		s := &all[i]
		begin := len(divided)
		for r := range s.rows.all {
			span := r.time / c.span
			if r.time < span*c.span {
				span-- // before 1970
			}
			at := slices.IndexFunc(divided[begin:], func(d sparse) bool { return d.span == span })
			if at < 0 {
				at = len(divided) - begin
				divided = append(divided, sparse{order: s.order, key: s.key, span: span})
			}
			divided[begin+at].rows.push(r, &c.buffers)
		}
		c.buffers.release(s.rows.buf)
	}
	return divided
}

// cutPart cuts the segments of series that lie together. It cuts one segment, unless types or times do not go together.
func (c *Catalog) cutPart(f *flight, part []sparse) {
	earliest, _ := timesOf(part)
	p := filling{c: c, f: f, earliest: c.options.Collection.Round(earliest)}
	for i := range part {
		for r := range part[i].rows.all {
			p.put(&part[i], r)
		}
	}
	for len(p.open) > 0 {
		p.end(0)
	}
	for i := range part {
		c.buffers.release(part[i].rows.buf)
	}
}

// appendMeta appends a series' meta as the element with which its measurements begin in a segment. It appends nothing for a
// series without meta.
func (c *Catalog) appendMeta(dst []byte, key string) []byte {
	if key == "" {
		return dst
	}
	return append(rawbson.AppendHeader(dst, bson.Type(key[0]), c.options.Collection.MetaField), key[1:]...)
}

// filling is the state while segments are filled.
type filling struct {
	c        *Catalog
	f        *flight
	earliest int64 // smallest time of the part, rounded; it is the usual minimum time of the segments
	open     []*segmentWrite
	of       *sparse // the series of the last measurement; meta is its meta as an element
	meta     []byte
	value    bson.RawValue // the meta of this series; type 0 means that it has none
}

// put puts a measurement of a series into a segment.
func (p *filling) put(s *sparse, r row) {
	if s != p.of {
		p.of, p.meta, p.value = s, p.c.appendMeta(p.meta[:0], s.key), bson.RawValue{}
		if s.key != "" {
			p.value = bson.RawValue{Type: bson.Type(s.key[0]), Value: p.meta[len(p.meta)-len(s.key)+1:]}
		}
	}
	head := len(p.meta)
	p.meta = append(p.meta, r.elements...)
	p.add(row{r.position, r.time, p.meta}, s.order)
	p.meta = p.meta[:head]
}

// add puts a measurement into the first open segment that takes it, or into a new one.
func (p *filling) add(r row, order []byte) {
	for at, s := range p.open {
		if v := s.shape.survey(r.elements); p.c.segmentTakes(s, r.time, v) {
			p.extend(s, r, v, order)
			if s.count() == p.c.segmentRows() {
				p.end(at)
			}
			return
		}
	}
	if len(p.open) == openSegments {
		p.end(0)
	}
	minTime := p.earliest
	if spanExceeded(r.time, minTime, p.c.span) {
		minTime = p.c.options.Collection.Round(r.time)
	}
	s := &segmentWrite{low: order, owner: p.c.options.Owner, first: r.position, earliest: r.time, bucket: bucket{
		minTime: minTime, maxTime: r.time, series: noSeries, shape: p.c.shapes.empty,
	}}
	p.extend(s, r, s.shape.survey(r.elements), order)
	p.open = append(p.open, s)
}

func (p *filling) end(at int) {
	p.c.cutSegment(p.f, p.open[at])
	p.open = slices.Delete(p.open, at, at+1)
}

// segmentTakes reports whether a measurement may go into a segment. The rules are those of buckets, but a segment never exceeds
// their size.
func (c *Catalog) segmentTakes(s *segmentWrite, time int64, v survey) bool {
	limits := &c.options.Limits
	return s.spans(time, c.span) && s.count() < c.segmentRows() && v.match != clashes &&
		int64(s.size)+c.added(s.count(), v) <= int64(limits.MaxBytes)
}

// extend adds a measurement of the present series to a segment.
func (p *filling) extend(s *segmentWrite, r row, v survey, order []byte) {
	c := p.c
	if s.last != p.of {
		s.bloom.Add(nil, p.value)
		s.last = p.of
	}
	s.size += int32(c.added(s.count(), v))
	if v.match == grows {
		c.shapes.extend(&s.bucket, r.elements, v)
	}
	s.pending.push(r, &c.buffers)
	s.high, s.earliest = order, min(s.earliest, r.time)
}

// cutSegment adds the write of a segment to the flush. The minimum time is the rounded smallest time of its measurements,
// because a tight one lets more queries skip the segment. A bucket takes its minimum time from the measurement that opens it,
// because later measurements are not known yet.
func (c *Catalog) cutSegment(f *flight, s *segmentWrite) {
	s.minTime = c.options.Collection.Round(s.earliest)
	s.id = timeseries.BucketID(c.options.Source, s.first, segmentAttempt+c.attempts[s.first], s.minTime)
	c.encoder.segment = s
	w := c.encoder.encode(c, &s.bucket, true, 1)
	c.encoder.segment = nil
	c.shapes.release(s.shape)
	w.Segment, w.Low, w.High = true, string(s.low), string(s.high)
	f.add(w, sent{rows: s.pending})
}

// append appends control.segment.
func (s *segmentWrite) append(dst []byte) []byte {
	dst, start := startDocument(dst, bson.TypeEmbeddedDocument, timeseries.FieldSegment)
	dst = bsoncore.AppendStringElement(dst, timeseries.FieldOwner, s.owner)
	dst = appendBinaryNamed(dst, timeseries.FieldLow, s.low)
	dst = appendBinaryNamed(dst, timeseries.FieldHigh, s.high)
	dst = s.bloom.Append(dst)
	return rawbson.EndDocument(dst, start)
}

// segmentApplied goes on after a segment is stored.
func (c *Catalog) segmentApplied(w *Write, done *sent) {
	c.stats.committed(w)
	c.forgetAttempts(done.rows)
	c.buffers.release(done.rows.buf)
}

// unstage puts back the measurements that are not stored, after a segment met another document with its _id, or after MongoDB
// refused it. After a refusal each of its series gets writes of its own, which finds the measurement at fault.
func (c *Catalog) unstage(done *sent, o *Outcome) {
	if o.Result == Conflicted {
		c.stats.Conflicts++
	} else {
		c.stats.Refusals++
	}
	first := true
	for r := range done.rows.all {
		if slices.Contains(o.Stored, r.position) {
			delete(c.attempts, r.position)
			first = false
			continue
		}
		if first && o.Result == Conflicted {
			c.attempts[r.position]++
		}
		first = false
		var key []byte
		key, r.elements = c.splitMeta(r.elements)
		s := c.series.find(key)
		if s == nil {
			s = c.addSeries(string(key))
		}
		c.put(s, r)
		if o.Result == Refused {
			s.setAlone()
		}
	}
	c.buffers.release(done.rows.buf)
}

// splitMeta takes the meta off the elements of a measurement in a segment, and returns it as the key of its series.
func (c *Catalog) splitMeta(elements []byte) (key, rest []byte) {
	field := c.options.Collection.MetaField
	if e, rest, ok := rawbson.Read(elements); ok && field != "" && string(e.Name) == field {
		return append([]byte{byte(e.Kind)}, e.Value...), rest
	}
	return nil, elements
}

// setAlone keeps the measurements that wait for a series' present buckets out of segments. KeepOut does so for later ones.
func (s *series) setAlone() {
	for b := range s.buckets {
		b.set(isAlone)
	}
}
