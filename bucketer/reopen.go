package bucketer

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Load takes answers to look-ups. Each series reopens a bucket or opens a new one. Its waiting measurements go on, up to one
// whose own look-up was not made ahead. An answer that no series waits for is ignored.
//
// The answers are forgotten afterwards. An answer ahead is as old as the answer that was asked for, so it serves only
// measurements that are placed now.
func (c *Catalog) Load(answers []Answer) {
	for len(answers) > 0 {
		first, n := &answers[0].Lookup, 1
		for n < len(answers) && answers[n].Lookup.Ahead && answers[n].Lookup.Series == first.Series {
			n++
		}
		if s := c.series.find([]byte(first.Series)); s != nil && s.isAwaiting() {
			if w := s.more.wanted; w.handed && !first.Ahead && w.lookup.IsSame(first) {
				c.resume(s, answers[:n])
			}
		}
		answers = answers[n:]
	}
}

// resume places the measurements of a series that await a look-up. The first answer is for the first measurement, the others are
// for those behind it.
func (c *Catalog) resume(s *series, answers []Answer) {
	stale := s.more.wanted.stale
	waiting := c.takeAwaiting(s)
	if !stale {
		c.foreseen = foreseen{series: s, answers: answers[1:]}
		first, _ := waiting.next()
		c.answer(s, first, &answers[0])
	}
	for !s.isAwaiting() {
		r, ok := waiting.next()
		if !ok {
			break
		}
		c.put(s, r)
	}
	c.foreseen = foreseen{}
	if s.isAwaiting() {
		c.awaitAgain(s, &waiting)
	} else {
		waiting.release(&c.buffers)
	}
	c.retire(s)
}

// answer places the measurement whose look-up was answered.
func (c *Catalog) answer(s *series, r row, a *Answer) {
	b, clash := c.reopen(s, r, a)
	archived := a.Lookup.ID != (bson.ObjectID{})
	switch {
	case b != nil:
		c.replaceOpen(s, b, r.elements)
	case archived && clash: // the bucket stays archived
		size, _ := c.options.Limits.Sizes(c.active())
		c.request(s, r, Lookup{Series: s.key, Time: r.time, Size: size})
		return
	case archived:
		c.archive.remove(a.Lookup.ID)
		c.unseen.add(r.time) // the bucket's minimum time is not later
	}
	var v survey
	if s.open != nil {
		v = s.open.shape.survey(r.elements)
	}
	c.place(s, r, v, wasAsked)
}

// replaceOpen makes a reopened bucket the open one. It replaces the open bucket that the measurement fits, if there is one.
func (c *Catalog) replaceOpen(s *series, b *bucket, elements []byte) {
	if s.open != nil {
		v := s.open.shape.survey(elements)
		if v.match == clashes {
			v = s.turnTo(elements)
		}
		if v.match != clashes {
			c.rollOver(s.open, softClose, byReopening)
		}
	}
	c.keep(b)
	c.setOpen(s, b)
}

// foreseen holds answers that came before they were asked for, in the probable order of asking.
type foreseen struct {
	series  *series
	answers []Answer
}

// take returns the answer to a look-up and drops the answers before it. Nil means that no answer was foreseen.
func (f *foreseen) take(s *series, l *Lookup) *Answer {
	if f.series != s {
		return nil
	}
	for i := range f.answers {
		if a := &f.answers[i]; a.Lookup.IsSame(l) {
			f.answers = f.answers[i+1:]
			return a
		}
	}
	return nil
}

// reopen makes a bucket in memory of the best candidate that a measurement does not clash with. It returns nil if there is
// none. The result clash reports whether the measurement clashes with a candidate. The catalog does not keep the bucket yet.
func (c *Catalog) reopen(s *series, r row, a *Answer) (b *bucket, clash bool) {
	archived := a.Lookup.ID != (bson.ObjectID{})
	candidates := c.candidates(s, r.time, a)
	switch found := len(candidates) > 0; {
	case archived && found:
		c.stats.BucketsFetched++
	case archived:
		c.stats.BucketFetchesFailed++
	case found:
		c.stats.BucketsQueried++
	default:
		c.stats.BucketQueriesFailed++
	}
	for i := range candidates {
		shape := c.shapeOf(s, &candidates[i])
		if shape != nil && shape.survey(r.elements).match == clashes {
			clash = true
			continue
		}
		if shape != nil {
			b = c.rehydrate(s, &candidates[i], shape)
		}
		if b == nil {
			c.stats.BucketReopeningsFailed++
			continue
		}
		c.stats.BucketsReopened++
		if archived {
			c.stats.BucketsReopenedFromArchive++
		}
		c.archive.remove(b.id)
		return b, clash
	}
	return nil, clash
}

// candidates returns the buckets of an answer that MongoDB's own query would find, best first. The best has the largest minimum
// time, and among several such the fewest measurements.
func (c *Catalog) candidates(s *series, time int64, a *Answer) []stored {
	var found []stored
	for _, candidate := range a.Candidates {
		d, ok := c.readStored(candidate)
		if !ok {
			continue
		}
		if a.Lookup.ID == (bson.ObjectID{}) {
			effective, _ := c.options.Limits.Sizes(c.active())
			ok = d.size < effective
		} else {
			ok = d.id == a.Lookup.ID
		}
		if !ok || !c.isEligible(s, time, &d) {
			continue
		}
		if c.buckets[d.id] != nil || c.archive.holdsForOther(s.key, d.id) {
			c.stats.DuplicateBucketsReopened++
			continue
		}
		found = append(found, d)
	}
	slices.SortStableFunc(found, func(a, b stored) int {
		return cmp.Or(cmp.Compare(b.minTime, a.minTime), cmp.Compare(a.count, b.count))
	})
	return found
}

// isEligible is the condition of MongoDB's query (version, not closed, not full, the window), with our source.
func (c *Catalog) isEligible(s *series, time int64, d *stored) bool {
	source := &c.options.Source
	return d.version == int64(timeseries.Version) && !d.closed &&
		d.count > 0 && d.count < c.options.Limits.MaxCount &&
		time >= d.minTime && !spanExceeded(time, d.minTime, c.span) &&
		bytes.Equal(d.topicID, source.TopicID[:]) && d.partition == int64(source.Partition) &&
		!s.excludes(d.id)
}

// shapeOf makes the shape of a candidate. It returns nil if the candidate is of another series or if no catalog writes such a
// bucket. Then its positions do not add up, or its bounds are unreadable or contradict each other.
func (c *Catalog) shapeOf(s *series, d *stored) *shape {
	if string(d.key) != s.key || !d.countsPositions() {
		return nil
	}
	if c.validate(d.lower) != nil || c.validate(d.upper) != nil {
		return nil
	}
	shape := c.shapes.empty
	if v := shape.survey(d.lower); v.match == grows {
		shape = c.shapes.grow(shape, d.lower, v)
	}
	v := shape.survey(d.upper)
	if v.match == clashes || v.columns != 0 || int(v.fields) != len(shape.members) {
		return nil
	}
	if v.match == grows {
		shape = c.shapes.grow(shape, d.upper, v)
	}
	return shape
}

// rehydrate makes a bucket of a candidate with this shape. It returns nil if a field has no maximum.
func (c *Catalog) rehydrate(s *series, d *stored, shape *shape) *bucket {
	lower, upper := appendFields(nil, d.lower), []byte{0, 0, 0, 0}
	members := finder{kind: bson.TypeEmbeddedDocument, rest: d.upper}
	for at := range shape.members {
		name := shape.members[at].name
		e, ok := members.next([]byte(name))
		if !ok {
			return nil
		}
		upper = appendNamed(upper, value{e.Kind, e.Value}, name)
	}
	b := &bucket{
		id: d.id, minTime: d.minTime, maxTime: d.maxTime,
		series: s, shape: shape, stored: d.count, size: d.size,
	}
	c.shapes.hold(shape)
	c.memory.buckets += c.ownShapeBytes(b)
	c.setBounds(b, append(lower, rawbson.EndDocument(upper, 0)...))
	return b
}

// stored is the content of a candidate, as far as it is readable.
type stored struct {
	id               bson.ObjectID
	key              []byte // of its series
	version          int64
	closed           bool
	minTime, maxTime int64
	lower, upper     []byte // elements of control.min and control.max, without the time
	count, size      int32
	topicID          []byte
	partition        int64
	offsets          bson.RawArray // of binaries
}

// readStored reads a candidate. False means that it is not a bucket.
func (c *Catalog) readStored(candidate Candidate) (d stored, ok bool) {
	document := candidate.Document
	if document.Validate() != nil { // Lookup needs a valid document
		return d, false
	}
	control, _ := document.Lookup(timeseries.FieldControl).DocumentOK()
	d.version = integer(control.Lookup(timeseries.FieldVersion))
	d.count = clampInt32(integer(control.Lookup(timeseries.FieldCount)))
	d.size = cmp.Or(candidate.Size, clampInt32(integer(control.Lookup(timeseries.FieldSize))))
	if closed := control.Lookup(timeseries.FieldClosed); closed.Type != 0 {
		value, isBool := closed.BooleanOK()
		d.closed = value || !isBool
	}
	if meta := document.Lookup(timeseries.FieldMeta); meta.Type != 0 {
		d.key = append([]byte{byte(meta.Type)}, meta.Value...)
	}
	source, _ := control.Lookup(timeseries.FieldSource).DocumentOK()
	_, d.topicID, _ = source.Lookup(timeseries.FieldTopicID).BinaryOK()
	d.partition = integer(source.Lookup(timeseries.FieldPartition))
	d.offsets, _ = source.Lookup(timeseries.FieldOffsets).ArrayOK()
	var isID, isLower, isUpper bool
	d.id, isID = document.Lookup(timeseries.FieldID).ObjectIDOK()
	d.lower, d.minTime, isLower = c.readBound(control, timeseries.FieldMin)
	d.upper, d.maxTime, isUpper = c.readBound(control, timeseries.FieldMax)
	return d, isID && isLower && isUpper
}

// readBound reads control.min or control.max, and separates the time from the other elements.
func (c *Catalog) readBound(control bson.Raw, name string) (fields []byte, time int64, ok bool) {
	bound, _ := control.Lookup(name).DocumentOK()
	elements, _ := bound.Elements()
	for _, e := range elements {
		if e.Key() == c.options.Collection.TimeField {
			time, ok = e.Value().DateTimeOK()
		} else {
			fields = append(fields, e...)
		}
	}
	return fields, time, ok
}

// countsPositions reports whether there are as many positions as measurements.
func (d *stored) countsPositions() bool {
	total := 0
	elements, _ := d.offsets.Values()
	for _, element := range elements {
		_, encoded, ok := element.BinaryOK()
		n, err := timeseries.CountPositions(encoded)
		if !ok || err != nil {
			return false
		}
		total += n
	}
	return total == int(d.count)
}

// integer returns a value as an integer. Zero also means that it is no number or has a fraction. Other clients and people may
// write a bucket's integers with another type.
func integer(v bson.RawValue) int64 {
	if f, ok := v.DoubleOK(); ok && (f != math.Trunc(f) || math.Abs(f) >= 1<<53) {
		return 0
	}
	n, _ := v.AsInt64OK()
	return n
}

// clampInt32 limits a number to the range of int32. No bucket has numbers near these limits.
func clampInt32(v int64) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }
