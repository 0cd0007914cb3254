package bucketer

import (
	"cmp"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// model implements the rules of the catalog again, in the simplest way. A bucket is the list of its readings, and everything else
// is computed from this list when it is needed.
type model struct {
	options    Options
	series     map[string]*modelSeries
	buckets    []*modelBucket // in the order in which they were opened
	touched    []*modelBucket // in the order in which a flush takes them
	idle       []*modelBucket // least recently used first
	asking     []string       // series whose look-ups are not handed out yet
	stats      map[string]int64
	rolls      int      // number of roll-overs so far
	archivings int      // number of archivings so far
	ahead      []Lookup // look-ups handed out for readings behind the answered reading
	// size returns the size of a stored document.
	size func(bson.ObjectID) int
}

type modelSeries struct {
	open     []*modelBucket // buckets of different kinds, the last used one first
	excluded []bson.ObjectID
	waits    bool
	handed   bool // the look-up was handed out, and its receiver answers it
	stale    bool
	lookup   Lookup
	awaiting []reading
}

type modelBucket struct {
	id       bson.ObjectID
	series   string
	minTime  int64
	readings []reading
	writes   []int // number of readings of each write
	action   action
	rolledAt int // number of roll-overs up to and including this one
	inMemory bool
	inFlight bool
	isClosed bool
	keptOpen bool // although the bucket is too large
	closing  bool // the write in flight closes the bucket
	archived bool
	since    int // number of archivings up to and including this one
	written  int // accounted bytes at the last write with readings
	// A reopened bucket has the size of its document, no matter what size its first readings have.
	reopenedAt, reopenedSize int
}

func newModel(o Options) *model {
	return &model{options: o, series: map[string]*modelSeries{}, stats: map[string]int64{}}
}

func (b *modelBucket) stored() int {
	n := 0
	for _, w := range b.writes {
		n += w
	}
	return n
}

func (b *modelBucket) pending() int    { return len(b.readings) - b.stored() }
func (b *modelBucket) mustClose() bool { return b.action == hardClose && !b.isClosed }
func (b *modelBucket) busy() bool      { return b.pending() > 0 || b.inFlight || b.mustClose() }

func (m *model) of(key string) *modelSeries {
	if m.series[key] == nil {
		m.series[key] = &modelSeries{}
	}
	return m.series[key]
}

func (m *model) insert(r reading) {
	s := m.of(r.series)
	if s.waits {
		s.awaiting = append(s.awaiting, r)
		return
	}
	m.place(s, r, true)
}

func (m *model) place(s *modelSeries, r reading, ask bool) {
	if len(s.open) == 0 {
		if !ask || !m.ask(s, r, true) {
			m.stats["numBucketsOpenedDueToMetadata"]++
			m.open(s, r)
		}
		return
	}
	act, why, query := stay, "", true
	open := s.turnTo(r)
	if open != nil {
		act, why = m.decide(open, r)
		query = act == archive
		if act == stay {
			m.add(s, open, r, why)
			return
		}
	}
	if act != hardClose {
		if b := m.alternate(r); b != nil {
			_, why := m.decide(b, r)
			m.add(s, b, r, why)
			return
		}
		if ask && m.ask(s, r, query) {
			return
		}
	}
	if open != nil {
		m.roll(s, open, act, why)
	}
	m.open(s, r)
}

// turnTo brings the open bucket that has the kinds of a reading to the front. Nil means that there is none.
func (s *modelSeries) turnTo(r reading) *modelBucket {
	for at, b := range s.open {
		if b.hasKindsOf(r) {
			s.open = append([]*modelBucket{b}, slices.Delete(slices.Clone(s.open), at, at+1)...)
			return b
		}
	}
	return nil
}

func (b *modelBucket) hasKindsOf(r reading) bool {
	return haveOneSchema(append(slices.Clip(b.readings), r))
}

func (m *model) alternate(r reading) *modelBucket {
	best := m.rolled(r, true)
	if best == nil || m.tooDear(best) {
		return nil
	}
	if act, _ := m.decide(best, r); act != stay {
		return nil
	}
	return best
}

// rolled returns the bucket that has rolled over for its time, is not written yet, and whose window contains a reading. With
// ofKinds the bucket must also have the kinds of the reading.
func (m *model) rolled(r reading, ofKinds bool) *modelBucket {
	var best *modelBucket
	for _, b := range m.buckets {
		fits := b.inMemory && b.series == r.series && (b.action == softClose || b.action == archive) && b.busy() &&
			r.time >= b.minTime && r.time-b.minTime < m.options.Collection.Span() && (!ofKinds || b.hasKindsOf(r))
		if fits && (best == nil || b.minTime > best.minTime || b.minTime == best.minTime && b.rolledAt < best.rolledAt) {
			best = b
		}
	}
	return best
}

func (m *model) tooDear(b *modelBucket) bool {
	if b.stored() == 0 || b.pending() == 0 {
		return false
	}
	crosses := len(strconv.Itoa(len(b.readings))) > len(strconv.Itoa(b.stored()))
	return m.options.DeltaMax > 0 && b.pending() >= int(m.options.DeltaMax) || m.options.SetsInTextOrder && crosses
}

// add puts a reading into a bucket. why is the answer of decide.
func (m *model) add(s *modelSeries, b *modelBucket, r reading, why string) {
	if m.tooDear(b) {
		taken := slices.Clone(b.readings[b.stored():])
		b.readings = b.readings[:b.stored()]
		m.roll(s, b, leave, "numBucketsLeftDueToDeltaCost")
		s.excluded = append(s.excluded, b.id)
		m.open(s, taken[0])
		for _, back := range append(taken[1:], r) {
			m.insert(back)
		}
		return
	}
	if why == isLarge && !b.keptOpen {
		b.keptOpen = true
		m.stats[isLarge]++
	}
	b.readings = append(b.readings, r)
	m.use(b)
}

// use adds a bucket to the list of the next flush.
func (m *model) use(b *modelBucket) {
	m.idle = slices.DeleteFunc(m.idle, func(i *modelBucket) bool { return i == b })
	if !slices.Contains(m.touched, b) {
		m.touched = append(m.touched, b)
	}
}

func (m *model) open(s *modelSeries, r reading) {
	for _, b := range slices.Clone(s.open) {
		if r.time-b.minTime >= m.options.Collection.Span() {
			m.roll(s, b, softClose, "numBucketsClosedDueToTimeForward")
		}
	}
	minTime := m.options.Collection.Round(r.time)
	b := &modelBucket{
		id: timeseries.BucketID(m.options.Source, r.position, 0, minTime), series: r.series, minTime: minTime,
		readings: []reading{r}, inMemory: true,
	}
	m.buckets = append(m.buckets, b)
	m.stats["numBucketsOpened"]++
	m.putInFront(s, b)
	m.use(b)
}

// putInFront opens a bucket. If four are open, it closes the last one.
func (m *model) putInFront(s *modelSeries, b *modelBucket) {
	if len(s.open) == 4 {
		m.roll(s, s.open[3], hardClose, "numBucketsClosedDueToSchemaChange")
	}
	s.open = append([]*modelBucket{b}, s.open...)
}

func (m *model) roll(s *modelSeries, b *modelBucket, act action, why string) {
	m.stats[why]++
	if at := slices.Index(s.open, b); at >= 0 {
		s.open, s.excluded = slices.Delete(slices.Clone(s.open), at, at+1), nil
	}
	m.rolls++
	b.action, b.rolledAt = act, m.rolls
	m.idle = slices.DeleteFunc(m.idle, func(i *modelBucket) bool { return i == b })
	if !b.busy() {
		m.end(b)
	} else if b.mustClose() {
		m.use(b)
	}
}

// end forgets a bucket without waiting readings.
func (m *model) end(b *modelBucket) {
	b.inMemory = false
	m.touched = slices.DeleteFunc(m.touched, func(t *modelBucket) bool { return t == b })
	if b.action != archive || !m.options.Reopen || b.isClosed {
		return
	}
	for _, other := range m.buckets {
		if other.archived && other.series == b.series && other.minTime == b.minTime {
			return
		}
	}
	m.archivings++
	b.archived, b.since = true, m.archivings
}

// ask makes the series wait if a look-up must be answered before it opens a bucket.
func (m *model) ask(s *modelSeries, r reading, query bool) bool {
	if !m.options.Reopen {
		return false
	}
	l := Lookup{Series: r.series, Time: r.time}
	if b := m.archived(s, r); b != nil {
		l.ID = b.id
	} else if !query {
		return false
	}
	m.request(s, l, r)
	return true
}

func (m *model) request(s *modelSeries, l Lookup, r reading) {
	if m.foreseen(l) {
		m.answer(s, l, r)
		return
	}
	s.waits, s.handed, s.stale, s.lookup, s.awaiting = true, false, false, l, []reading{r}
	m.asking = append(m.asking, r.series)
}

// archived returns the archived bucket to look up for a reading.
func (m *model) archived(s *modelSeries, r reading) *modelBucket {
	var best *modelBucket
	for _, b := range m.buckets {
		if b.archived && b.series == r.series && b.minTime <= r.time && (best == nil || b.minTime > best.minTime) {
			best = b
		}
	}
	if best == nil || r.time-best.minTime >= m.options.Collection.Span() || slices.Contains(s.excluded, best.id) {
		return nil
	}
	return best
}

// load answers the look-up of a series, and the look-ups handed out with it when they are needed, from the stored buckets.
func (m *model) load(answered []Lookup) {
	s := m.series[answered[0].Series]
	awaiting := s.awaiting
	s.waits, s.awaiting = false, nil
	if !s.stale {
		m.ahead = answered[1:]
		m.answer(s, answered[0], awaiting[0])
		awaiting = awaiting[1:]
	}
	for _, r := range awaiting {
		m.insert(r)
	}
	m.ahead = nil
}

// answer places a reading, given the stored buckets.
func (m *model) answer(s *modelSeries, l Lookup, r reading) {
	b, others := m.candidate(s, l, r)
	switch {
	case b != nil:
		if open := s.turnTo(r); open != nil {
			m.roll(s, open, softClose, "numBucketsClosedDueToReopening")
		}
		m.stats["numBucketsReopened"]++
		b.archived, b.inMemory, b.keptOpen, b.action = false, true, false, stay
		b.reopenedAt, b.reopenedSize = len(b.readings), m.size(b.id)
		m.putInFront(s, b)
	case others && l.ID != (bson.ObjectID{}):
		m.request(s, Lookup{Series: r.series, Time: r.time}, r)
		return
	default:
		m.unarchive(l.ID)
	}
	m.place(s, r, false)
}

func (m *model) unarchive(id bson.ObjectID) {
	for _, b := range m.buckets {
		if b.id == id {
			b.archived = false
		}
	}
}

// candidate returns the stored bucket to reopen for a reading. others reports whether some buckets have other kinds.
func (m *model) candidate(s *modelSeries, l Lookup, r reading) (best *modelBucket, others bool) {
	effective, _ := m.options.Limits.Sizes(int64(m.active()))
	var found []*modelBucket
	for _, b := range m.buckets {
		switch {
		case b.stored() == 0, b.inMemory, b.isClosed, b.series != l.Series, slices.Contains(s.excluded, b.id),
			len(b.readings) >= int(m.options.Limits.MaxCount),
			r.time < b.minTime, r.time-b.minTime >= m.options.Collection.Span():
		case l.ID != (bson.ObjectID{}) && l.ID != b.id, l.ID == (bson.ObjectID{}) && m.size(b.id) >= int(effective):
		case !b.hasKindsOf(r):
			others = true
		default:
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		return nil, others
	}
	return slices.MinFunc(found, func(a, b *modelBucket) int {
		return cmp.Or(cmp.Compare(b.minTime, a.minTime), cmp.Compare(len(a.readings), len(b.readings)))
	}), others
}

// waiting returns the number of buckets that have something to write.
func (m *model) waiting() (n int) {
	for _, b := range m.touched {
		if b.pending() > 0 || b.mustClose() {
			n++
		}
	}
	return n
}

// prepare returns the buckets that a flush writes.
func (m *model) prepare(most int) []*modelBucket {
	var out, left []*modelBucket
	for at, b := range m.touched {
		if len(out) == most {
			left = m.touched[at:]
			break
		}
		if b.pending() == 0 && !b.mustClose() {
			continue
		}
		b.closing = !b.isClosed && (b.mustClose() || len(b.readings) >= int(m.options.Limits.MaxCount))
		if n := b.pending(); n > 0 {
			b.writes = append(b.writes, n)
			b.written = b.size(&m.options, b.readings)
		}
		b.inFlight, b.isClosed = true, b.isClosed || b.closing
		out = append(out, b)
	}
	m.touched = left
	return out
}

// finish assumes that all writes of a flush were applied. updated says which of them were updates.
func (m *model) finish(written []*modelBucket, updated map[bson.ObjectID]bool) {
	for _, b := range written {
		b.inFlight = false
		if s := m.series[b.series]; s.waits && updated[b.id] {
			s.stale = true
		}
		if b.busy() {
			continue
		}
		if b.action != stay {
			m.end(b)
			m.retire(b.series)
		} else {
			m.idle = append(m.idle, b)
		}
	}
}
