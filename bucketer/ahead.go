package bucketer

import (
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// aheadStride bounds how far Lookups looks ahead, in parked measurements per look-up that it may still return.
const aheadStride = 64

// Lookups returns up to max look-ups that were not handed out before, in the order in which they were asked. Each waits for its
// Answer in Load.
//
// If there is room left, each look-up is followed by look-ups ahead, for the measurements parked behind it, as far as they can
// be told. A backfill may open another bucket with each measurement. Without looking ahead it would ask for one bucket at a
// time.
func (c *Catalog) Lookups(max int) []Lookup {
	waiting := c.lookups.take(max)
	if len(waiting) == 0 {
		return nil
	}
	out := make([]Lookup, 0, len(waiting))
	for _, s := range waiting {
		out = append(out, s.more.wanted.lookup)
		out = c.lookAhead(out, s, max/len(waiting)-1)
	}
	return out
}

// lookAhead appends up to room look-ups for the measurements parked behind the first one.
func (c *Catalog) lookAhead(out []Lookup, s *series, room int) []Lookup {
	size, _ := c.options.Limits.Sizes(c.active())
	f := forecast{catalog: c, series: s}
	steps := 1 + room*aheadStride
	for r := range s.more.parked.all {
		if room == 0 || steps == 0 {
			break
		}
		steps--
		l := Lookup{Series: s.key, Meta: s.more.wanted.lookup.Meta, Time: r.time, Ahead: true}
		var asks bool
		if l.ID, asks = f.place(r.time); !asks || len(f.minTimes) == 1 {
			continue // the first has asked already
		}
		if l.ID == (bson.ObjectID{}) && !c.mayFind(s, r.time) {
			continue
		}
		if l.ID == (bson.ObjectID{}) {
			l.Size = size
		}
		out = append(out, l)
		room--
	}
	return out
}

// forecast predicts the look-ups of a parked series' measurements. It assumes that no look-up finds a bucket and that none
// becomes full. A wrong forecast only costs a look-up too many, or a later one.
type forecast struct {
	catalog  *Catalog
	series   *series
	open     int64   // minimum time of the future open bucket
	minTimes []int64 // of the future buckets, ascending
}

// place reports whether a measurement will ask, and for which archived bucket. A zero id means any bucket.
func (f *forecast) place(time int64) (id bson.ObjectID, asks bool) {
	c, s := f.catalog, f.series
	first := len(f.minTimes) == 0
	if !first && (f.covers(time) || s.open != nil && s.open.spans(time, c.span)) {
		return id, false
	}
	if alternate, _ := s.alternate(time, c.span, nil); alternate != nil && !first {
		return id, false
	}
	backward := first || time < f.open
	f.open = c.options.Collection.Round(time)
	if archived, minTime, ok := c.archive.find(s.key, time, c.span); ok && !s.excludes(archived) {
		id, f.open = archived, minTime
	}
	at, _ := slices.BinarySearch(f.minTimes, f.open)
	f.minTimes = slices.Insert(f.minTimes, at, f.open)
	return id, backward || id != (bson.ObjectID{})
}

// covers reports whether a future bucket will take a measurement of this time.
func (f *forecast) covers(time int64) bool {
	at := sort.Search(len(f.minTimes), func(i int) bool { return f.minTimes[i] > time })
	return at > 0 && !spanExceeded(time, f.minTimes[at-1], f.catalog.span)
}
