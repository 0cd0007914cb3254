package bucketer

import (
	"math"
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Lookup asks the database for buckets of one series that may take a measurement of a given time.
type Lookup struct {
	// Series is the binary key of the series: the meta's type byte and its bytes. It is empty without a meta.
	Series string
	// Meta is the normalised meta. Type 0 means that there is none.
	Meta bson.RawValue
	// Time is the measurement's time in milliseconds. A bucket must have control.min.<time> in (Time - span, Time]. Time is unused
	// when ID is set.
	Time int64
	// Size is the number of accounted bytes from which a bucket is full. A bucket must have fewer. Zero means any size. Size is
	// unused when ID is set.
	Size int32
	// ID, when not zero, is the archived bucket to look for.
	ID bson.ObjectID
	// Ahead means that the measurement waits behind another one and will probably ask for this bucket later. The look-up may stay
	// unanswered.
	Ahead bool
}

// IsSame reports whether two look-ups ask for the same buckets.
func (l *Lookup) IsSame(other *Lookup) bool {
	return l.Series == other.Series && l.ID == other.ID && l.Time == other.Time
}

// Answer is the database's answer to a Lookup. The catalog still checks each candidate and may refuse all. Of many candidates,
// those with the largest control.min.<time> are enough, and among equal ones those with the fewest measurements. The catalog
// takes them in that order.
type Answer struct {
	Lookup     Lookup
	Candidates []Candidate
}

// Candidate is a stored bucket without its columns.
type Candidate struct {
	// Document holds _id, control (with source) and meta of the bucket.
	Document bson.Raw
	// Size is the BSON size of the whole stored document ($bsonSize). Zero means that the server cannot tell; then control.size
	// counts.
	Size int32
}

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

// unseen is an upper bound of the minimum times of stored buckets of the source that are neither in memory nor in the archive.
// A query can find no other buckets. They were there when the catalog began, or the catalog has forgotten them, because only it
// opens buckets of the source.
type unseen struct{ newest int64 }

// Begin tells an empty catalog that no stored bucket of its source has a control.min.<time> larger than newest, in
// milliseconds. math.MinInt64 means that there is no bucket. Without Begin there may be any buckets. If newest is wrong, the
// only consequence is that a bucket is opened where another one might have been reopened.
func (c *Catalog) Begin(newest int64) { c.unseen.newest = newest }

// mayFind reports whether a query may find a bucket for a measurement when the archive has none. An excluded bucket may hide an
// older one in the archive.
func (c *Catalog) mayFind(s *series, time int64) bool {
	newest := c.unseen.newest
	return newest > time || newest != math.MinInt64 && !spanExceeded(time, newest, c.span) ||
		s.more != nil && len(s.more.excluded) > 0
}

// add counts a bucket with this minimum time among the unseen.
func (u *unseen) add(minTime int64) { u.newest = max(u.newest, minTime) }
