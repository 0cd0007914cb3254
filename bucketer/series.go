package bucketer

import (
	"hash/maphash"
	"iter"
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// series is the set of measurements with the same normalised meta, compared byte by byte.
type series struct {
	key  string  // the meta's type byte and its bytes; empty without a meta
	open *bucket // the most recently used open bucket
	more *more   // nil most of the time
}

// more is the state that only unusual situations of a series need.
type more struct {
	others   []*bucket // the other open buckets, which have other combinations of types, the most recently used first
	rolled   rolled
	excluded []bson.ObjectID // not to be reopened before an open bucket has rolled over

	awaiting line    // measurements that wait for the answer to wanted
	wanted   *wanted // Nil means that there is no question.

	conflicts int   // consecutive ones
	notBefore int64 // by the caller's clock: Prepare leaves the series out until then
}

// meta returns the meta as a BSON value with bytes of its own.
func (s *series) meta() bson.RawValue {
	if len(s.key) == 0 {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.Type(s.key[0]), Value: []byte(s.key[1:])}
}

func (s *series) isAwaiting() bool { return s.more != nil && s.more.wanted != nil }

// excludes reports whether the series must not reopen a bucket.
func (s *series) excludes(id bson.ObjectID) bool {
	return s.more != nil && slices.Contains(s.more.excluded, id)
}

// isOrdinary reports whether the series needs none of this state.
func (x *more) isOrdinary() bool {
	return len(x.others) == 0 && x.rolled.live == 0 && len(x.excluded) == 0 && x.wanted == nil && x.conflicts == 0
}

// alternate returns a bucket that has rolled over by time, is not completely written, and does not clash with a measurement of
// its window. Among several it prefers the largest minimum time, and then the bucket that rolled over first.
func (s *series) alternate(time, span int64, elements []byte) (*bucket, survey) {
	if s.more == nil {
		return nil, survey{}
	}
	for b := range s.more.rolled.before(time) {
		if spanExceeded(time, b.minTime, span) {
			break
		}
		if b.is(isGone) || b.action != softClose && b.action != archive {
			continue
		}
		if v := b.shape.survey(elements); v.match != clashes {
			return b, v
		}
	}
	return nil, survey{}
}

// roll adds a bucket that has rolled over.
func (x *more) roll(b *bucket) {
	x.rolled.add(b)
	b.set(isRolled)
}

// unroll accounts for a bucket that is gone, if it had rolled over.
func (x *more) unroll(b *bucket) {
	if b.is(isRolled) {
		x.rolled.drop()
	}
}

// rolledChunk is the largest number of buckets in a chunk.
const rolledChunk = 512

// rolled holds the buckets of a series that are no longer open and not completely written. They are sorted by minimum time, and
// for equal times the newest comes first. So a late measurement finds its bucket without a look at all of them. Chunks make an
// insertion as fast at the front, where the buckets of a backfill go, as at the end. Gone buckets are removed many at a time.
type rolled struct {
	chunks [][]*bucket // none is empty
	all    int         // including gone ones
	live   int
}

// add adds a bucket.
func (l *rolled) add(b *bucket) {
	l.all++
	l.live++
	n := sort.Search(len(l.chunks), func(i int) bool {
		chunk := l.chunks[i]
		return chunk[len(chunk)-1].minTime >= b.minTime
	})
	if n == len(l.chunks) {
		if n == 0 {
			l.chunks = append(l.chunks, []*bucket{b})
			return
		}
		n--
	}
	chunk := l.chunks[n]
	at := sort.Search(len(chunk), func(i int) bool { return chunk[i].minTime >= b.minTime })
	if len(chunk) == rolledChunk {
		half := slices.Clone(chunk[rolledChunk/2:])
		clear(chunk[rolledChunk/2:])
		chunk = chunk[:rolledChunk/2]
		l.chunks[n] = chunk
		l.chunks = slices.Insert(l.chunks, n+1, half)
		if at > len(chunk) {
			n, at, chunk = n+1, at-len(chunk), half
		}
	}
	l.chunks[n] = slices.Insert(chunk, at, b)
}

// before yields the buckets with minimum times that are not after a time, the latest first.
func (l *rolled) before(time int64) func(yield func(*bucket) bool) {
	return func(yield func(*bucket) bool) {
		n := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i][0].minTime > time }) - 1
		for ; n >= 0; n-- {
			chunk := l.chunks[n]
			at := sort.Search(len(chunk), func(i int) bool { return chunk[i].minTime > time })
			for at--; at >= 0; at-- {
				if !yield(chunk[at]) {
					return
				}
			}
		}
	}
}

// drop accounts for a bucket that is gone, and removes the gone buckets when they are more than half.
func (l *rolled) drop() {
	if l.live--; l.live >= l.all/2 {
		return
	}
	kept := l.chunks[:0]
	for _, chunk := range l.chunks {
		if chunk = slices.DeleteFunc(chunk, func(b *bucket) bool { return b.is(isGone) }); len(chunk) > 0 {
			kept = append(kept, chunk)
		}
	}
	clear(l.chunks[len(kept):])
	l.chunks, l.all = kept, l.live
}

// A bucket never holds values of two canonical types at one path. A series whose values change their types to and fro has an
// open bucket for each combination of types. Otherwise each change would cost a bucket.
const (
	// openKinds is the largest number of open buckets of a series. One more closes the least recently used bucket.
	openKinds = 4
	// compactedKinds is openKinds for a compaction. There all buckets stay in memory until the end, so more may be open.
	compactedKinds = 64
)

// turnTo makes the most recently used of the other open buckets that does not clash with a measurement the open bucket of the
// series. It returns the survey against that bucket, or a survey that clashes if no bucket fits.
func (s *series) turnTo(elements []byte) survey {
	if s.more == nil {
		return survey{match: clashes}
	}
	for at, b := range s.more.others {
		if v := b.shape.survey(elements); v.match != clashes {
			copy(s.more.others[1:at+1], s.more.others[:at])
			s.more.others[0], s.open = s.open, b
			return v
		}
	}
	return survey{match: clashes}
}

// setOpen makes a bucket the open bucket of its series. If too many are open, it closes the least recently used.
func (c *Catalog) setOpen(s *series, b *bucket) {
	if s.open != nil {
		if all := slices.Collect(s.opened); len(all) == c.mostOpen {
			c.rollOver(all[len(all)-1], hardClose, bySchemaChange)
		}
	}
	if s.open != nil { // nil if only one may be open, which is closed now
		x := c.extra(s)
		before := cap(x.others)
		x.others = slices.Insert(x.others, 0, s.open)
		c.memory.series += int64(cap(x.others)-before) * pointerBytes
	}
	s.open = b
}

// rollPassed rolls over the open buckets of a series whose windows end before a time.
func (c *Catalog) rollPassed(s *series, time int64) {
	if s.open == nil {
		return
	}
	var passed []*bucket
	for b := range s.opened {
		if time >= b.minTime && spanExceeded(time, b.minTime, c.span) {
			passed = append(passed, b)
		}
	}
	for _, b := range passed {
		c.rollOver(b, softClose, byTimeForward)
	}
}

// opened yields the open buckets, the most recently used first. No bucket may be opened or rolled over meanwhile.
func (s *series) opened(yield func(*bucket) bool) {
	if s.open == nil || !yield(s.open) || s.more == nil {
		return
	}
	for _, b := range s.more.others {
		if !yield(b) {
			return
		}
	}
}

// buckets yields the buckets of a series in memory: the open ones, then those that have rolled over. None may be opened, rolled
// over or dropped meanwhile.
func (s *series) buckets(yield func(*bucket) bool) {
	all := [][]*bucket{slices.Collect(s.opened)}
	if s.more != nil {
		all = append(all, s.more.rolled.chunks...)
	}
	for _, chunk := range all {
		for _, b := range chunk {
			if !b.is(isGone) && !yield(b) {
				return
			}
		}
	}
}

// withdraw takes a bucket out of the open buckets, and reports whether it was open. The most recently used other bucket becomes
// the open bucket of the series.
func (s *series) withdraw(b *bucket) bool {
	switch {
	case s.open == b && (s.more == nil || len(s.more.others) == 0):
		s.open = nil
	case s.open == b:
		s.open = s.more.others[0]
		s.more.others = slices.Delete(s.more.others, 0, 1)
	case s.more == nil:
		return false
	default:
		at := slices.Index(s.more.others, b)
		if at < 0 {
			return false
		}
		s.more.others = slices.Delete(s.more.others, at, at+1)
	}
	return true
}

// table finds series by their keys. It is one list, in which a key is at the place that its hash gives, or shortly behind it.
// So a look-up reads one place in memory besides the series itself. A map of strings reads two or three, and with hundreds of
// thousands of series each is a cache miss.
type table struct {
	seed  maphash.Seed
	slots []slot // a power of two, at most three quarters of them taken
	live  int
}

// slot is the place of a series. It is free if it has none.
type slot struct {
	hash   uint64
	series *series
}

const minSlots = 8

func newTable() table { return table{seed: maphash.MakeSeed(), slots: make([]slot, minSlots)} }

// find returns the series with a key. Nil means that there is none.
func (t *table) find(key []byte) *series {
	hash, mask := maphash.Bytes(t.seed, key), uint64(len(t.slots)-1)
	for at := hash & mask; ; at = (at + 1) & mask {
		s := &t.slots[at]
		if s.series == nil {
			return nil
		}
		if s.hash == hash && s.series.key == string(key) {
			return s.series
		}
	}
}

// add adds a series that is not in the table.
func (t *table) add(s *series) {
	if t.live >= len(t.slots)/4*3 {
		t.resize(2 * len(t.slots))
	}
	t.live++
	t.put(slot{maphash.String(t.seed, s.key), s})
}

func (t *table) put(s slot) {
	mask := uint64(len(t.slots) - 1)
	at := s.hash & mask
	for t.slots[at].series != nil {
		at = (at + 1) & mask
	}
	t.slots[at] = s
}

// remove removes a series. False means that it is not in the table. The series behind it move up, so that no look-up ends too
// early.
func (t *table) remove(s *series) bool {
	mask := uint64(len(t.slots) - 1)
	at := maphash.String(t.seed, s.key) & mask
	for t.slots[at].series != s {
		if t.slots[at].series == nil {
			return false
		}
		at = (at + 1) & mask
	}
	t.live--
	for next := (at + 1) & mask; t.slots[next].series != nil; next = (next + 1) & mask {
		// The series may move to at unless its own place lies behind at.
		if home := t.slots[next].hash & mask; (next-home)&mask >= (next-at)&mask {
			t.slots[at] = t.slots[next]
			at = next
		}
	}
	t.slots[at] = slot{}
	return true
}

func (t *table) resize(size int) {
	old := t.slots
	t.slots = make([]slot, size)
	for _, s := range old {
		if s.series != nil {
			t.put(s)
		}
	}
}

// shrink gives memory back when the table has become much emptier.
func (t *table) shrink() {
	size := len(t.slots)
	for size > minSlots && t.live < size/4 {
		size /= 2
	}
	if size < len(t.slots) {
		t.resize(size)
	}
}

// all yields the series, in any order. None may be added or removed meanwhile.
func (t *table) all() iter.Seq[*series] {
	return func(yield func(*series) bool) {
		for i := range t.slots {
			if s := t.slots[i].series; s != nil && !yield(s) {
				return
			}
		}
	}
}

// bytes is the memory of the table.
func (t *table) bytes() int64 { return int64(len(t.slots)) * slotBytes }
