package bucketer

import (
	"hash/maphash"
	"iter"
)

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
