package bucketer

import (
	"bytes"
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

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
