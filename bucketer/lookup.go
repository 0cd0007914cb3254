package bucketer

import (
	"container/heap"
	"math"
	"slices"
	"sort"
	"unsafe"

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

// aheadStride bounds how far Lookups looks ahead, in waiting measurements per look-up that it may still return.
const aheadStride = 64

// Lookups returns up to max look-ups that were not handed out before, in the order in which they were asked. Each waits for its
// Answer in Load.
//
// If there is room left, each look-up is followed by look-ups ahead, for the measurements that wait behind it, as far as they can
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

// lookAhead appends up to room look-ups for the measurements that wait behind the first one.
func (c *Catalog) lookAhead(out []Lookup, s *series, room int) []Lookup {
	size, _ := c.options.Limits.Sizes(c.active())
	f := forecast{catalog: c, series: s}
	steps := 1 + room*aheadStride
	for r := range s.more.awaiting.all {
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

// forecast predicts the look-ups for the measurements of a series that awaits one. It assumes that no look-up finds a bucket and
// that none becomes full. A wrong forecast only costs a look-up too many, or a later one.
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

// wanted is the look-up that a series waits for.
type wanted struct {
	lookup Lookup
	handed bool  // Lookups has returned it
	stale  bool  // the answer may be outdated; place the measurements anew
	oldest int64 // smallest offset of the measurements that await look-ups
}

const (
	wantedBytes   = int64(unsafe.Sizeof(wanted{})+15) &^ 15
	awaitingBytes = int64(unsafe.Sizeof(awaitingSince{}))
)

// awaitingSince says that a series has a measurement that awaits a look-up with this offset. It counts only while the series
// waits for the same look-up.
type awaitingSince struct {
	offset int64
	series *series
	wanted *wanted
}

func (p awaitingSince) holds() bool {
	return p.series.more != nil && p.series.more.wanted == p.wanted && p.wanted.oldest == p.offset
}

// awaitingLookup knows all series that wait for a look-up.
type awaitingLookup struct {
	series int
	queue  []*series    // series whose look-ups were not handed out yet, in the order of asking
	heap   awaitingHeap // with some outdated entries
}

// bytes is the memory of the list without the measurements.
func (p *awaitingLookup) bytes() int64 {
	return int64(p.series)*wantedBytes + int64(cap(p.queue))*8 + int64(cap(p.heap))*awaitingBytes
}

// askFor looks for a stored bucket for a measurement before its series opens another one. It asks for an archived bucket of the
// measurement's window, or else for any bucket if a query is allowed. The measurement is placed when the answer comes. If the
// answer is already there, that is at once; otherwise the measurement waits. False means that there is nothing to ask.
func (c *Catalog) askFor(s *series, r row, query bool) bool {
	if !c.options.Reopen {
		return false
	}
	lookup := Lookup{Series: s.key, Time: r.time}
	if id, _, ok := c.archive.find(s.key, r.time, c.span); ok && !s.excludes(id) {
		lookup.ID = id
	} else if query && c.mayFind(s, r.time) {
		lookup.Size, _ = c.options.Limits.Sizes(c.active())
	} else {
		return false
	}
	c.request(s, r, lookup)
	return true
}

// request places a measurement when its look-up is answered.
func (c *Catalog) request(s *series, r row, lookup Lookup) {
	if a := c.foreseen.take(s, &lookup); a != nil {
		c.answer(s, r, a)
		return
	}
	lookup.Meta = s.meta()
	c.extra(s).wanted = &wanted{lookup: lookup, oldest: r.position.Offset}
	c.lookups.series++
	c.lookups.queue = append(c.lookups.queue, s)
	c.lookups.note(s)
	c.await(s, r)
}

// await adds a measurement to those of its series that await a look-up.
func (c *Catalog) await(s *series, r row) {
	s.more.awaiting.push(r, &c.buffers)
	c.lookups.lower(s, r.position.Offset)
}

// takeAwaiting takes the measurements that await look-ups out. The caller then owns them.
func (c *Catalog) takeAwaiting(s *series) line {
	waiting := s.more.awaiting
	s.more.awaiting, s.more.wanted = line{}, nil
	c.lookups.series--
	return waiting
}

// awaitAgain takes back the rest of what takeAwaiting returned, behind measurements that came since.
func (c *Catalog) awaitAgain(s *series, rest *line) {
	if oldest, ok := rest.oldest(); ok {
		c.lookups.lower(s, oldest)
	}
	s.more.awaiting.follow(rest, &c.buffers)
}

// lower notes that a series has a measurement that awaits a look-up of this offset.
func (p *awaitingLookup) lower(s *series, offset int64) {
	if w := s.more.wanted; offset < w.oldest {
		w.oldest = offset
		p.note(s)
	}
}

// take returns up to max series whose look-ups were not handed out before, in the order of asking.
func (p *awaitingLookup) take(max int) []*series {
	var first []*series
	taken := 0
	for _, s := range p.queue {
		if len(first) == max {
			break
		}
		taken++
		if s.isAwaiting() && !s.more.wanted.handed {
			s.more.wanted.handed = true
			first = append(first, s)
		}
	}
	clear(p.queue[:taken])
	if p.queue = p.queue[taken:]; len(p.queue) == 0 {
		p.queue = nil
	}
	return first
}

// note remembers the smallest offset of a series that awaits a look-up.
func (p *awaitingLookup) note(s *series) {
	if len(p.heap) > 2*p.series+64 {
		p.heap = slices.DeleteFunc(p.heap, func(entry awaitingSince) bool { return !entry.holds() })
		heap.Init(&p.heap)
	}
	heap.Push(&p.heap, awaitingSince{offset: s.more.wanted.oldest, series: s, wanted: s.more.wanted})
}

// oldest is the smallest offset of all measurements that await look-ups.
func (p *awaitingLookup) oldest() (int64, bool) {
	for len(p.heap) > 0 {
		if p.heap[0].holds() {
			return p.heap[0].offset, true
		}
		heap.Pop(&p.heap)
	}
	return 0, false
}

// awaitingHeap has the smallest offset first. It implements heap.Interface.
type awaitingHeap []awaitingSince

func (h awaitingHeap) Len() int           { return len(h) }
func (h awaitingHeap) Less(i, j int) bool { return h[i].offset < h[j].offset }
func (h awaitingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *awaitingHeap) Push(x any)        { *h = append(*h, x.(awaitingSince)) }

// Pop takes the last entry out.
func (h *awaitingHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = awaitingSince{}
	*h = (*h)[:last]
	return x
}
