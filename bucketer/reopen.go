package bucketer

import (
	"bytes"
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
	"waterwheel/timeseries/rawbson"
)

// reopen makes a bucket in memory of the best candidate of an answer; nil if there is none. Nothing is kept yet.
func (c *Catalog) reopen(s *series, time int64, a *Answer) *bucket {
	archived := a.Lookup.ID != (bson.ObjectID{})
	candidates := c.candidates(s, time, a)
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
		b := c.rehydrate(s, &candidates[i])
		if b == nil {
			c.stats.BucketReopeningsFailed++
			continue
		}
		c.stats.BucketsReopened++
		if archived {
			c.stats.BucketsReopenedFromArchive++
		}
		c.archive.remove(b.id)
		return b
	}
	return nil
}

// candidates returns the stored buckets of an answer that MongoDB's own query would find, best first: the one with the
// largest minimum time, of several the one with the fewest measurements.
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

// isEligible is the match of MongoDB's query: version, not closed, not full, the window; and our source.
func (c *Catalog) isEligible(s *series, time int64, d *stored) bool {
	source := &c.options.Source
	return d.version == int64(timeseries.Version) && !d.closed &&
		d.count > 0 && d.count < c.options.Limits.MaxCount &&
		time >= d.minTime && !spanExceeded(time, d.minTime, c.span) &&
		bytes.Equal(d.topicID, source.TopicID[:]) && d.partition == int64(source.Partition) &&
		!s.excludes(d.id)
}

// rehydrate makes a bucket of a candidate; nil when the candidate is of another series, or is not what a catalog
// writes: positions that do not add up, bounds that cannot be read or contradict each other.
func (c *Catalog) rehydrate(s *series, d *stored) *bucket {
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
