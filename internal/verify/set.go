package verify

import (
	"waterwheel/internal/bitmap"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// set is a set of positions in a window of at most 2^32 offsets. Most positions have part 0, and take at most one bit per offset.
// Other parts of array records take at most a few bytes each.
type set struct {
	start int64
	whole *bitmap.Set // offset − start of the positions of part 0
	parts *bitmap.Set // the keys of all other positions
}

func newSet(start int64) *set {
	return &set{start: start, whole: &bitmap.Set{}, parts: &bitmap.Set{}}
}

// key orders parts in blocks of 64 parts by offset. So both many short arrays and few long ones lie close together in the
// containers of a bitmap.
func (s *set) key(p timeseries.Position) uint64 {
	return uint64(p.Part>>6)<<38 | uint64(p.Offset-s.start)<<6 | uint64(p.Part&63)
}

func (s *set) position(key uint64) timeseries.Position {
	return timeseries.Position{Offset: s.start + int64(key>>6&(1<<32-1)), Part: int32(key>>38<<6 | key&63)}
}

// add adds a position of the window. False means that it was there already.
func (s *set) add(p timeseries.Position) bool {
	if p.Part == 0 {
		return s.whole.Add(uint64(p.Offset - s.start))
	}
	return s.parts.Add(s.key(p))
}

func (s *set) has(p timeseries.Position) bool {
	if p.Part == 0 {
		return s.whole.Has(uint64(p.Offset - s.start))
	}
	return s.parts.Has(s.key(p))
}

func (s *set) count() int64 { return int64(s.whole.Len() + s.parts.Len()) }

// or returns the positions in s or t, which has the same start.
func (s *set) or(t *set) *set {
	return &set{start: s.start, whole: bitmap.Union(s.whole, t.whole), parts: bitmap.Union(s.parts, t.parts)}
}

// without returns the positions of s that are not in t, with the same start.
func (s *set) without(t *set) *set {
	return &set{start: s.start, whole: bitmap.Difference(s.whole, t.whole), parts: bitmap.Difference(s.parts, t.parts)}
}

// and returns the positions in both sets.
func (s *set) and(t *set) *set {
	return &set{start: s.start, whole: bitmap.Intersection(s.whole, t.whole), parts: bitmap.Intersection(s.parts, t.parts)}
}

// each calls use for every position. Positions of part 0 come first, by rising offset.
func (s *set) each(use func(timeseries.Position)) {
	for offset := range s.whole.All() {
		use(timeseries.Position{Offset: s.start + int64(offset)})
	}
	for key := range s.parts.All() {
		use(s.position(key))
	}
}

// span returns the smallest range of offsets, [from, to), that holds all positions. The set must not be empty.
func (s *set) span() (from, to int64) {
	from, to = int64(1)<<62, 0
	if least, ok := s.whole.Min(); ok {
		most, _ := s.whole.Max()
		from, to = s.start+int64(least), s.start+int64(most)+1
	}
	for key := range s.parts.All() {
		p := s.position(key)
		from, to = min(from, p.Offset), max(to, p.Offset+1)
	}
	return from, to
}

// maxPartOffset bounds the offsets of letters for elements of arrays. The bitmap has no room for larger ones.
const maxPartOffset = 1 << 44

// DeadLetters are the positions of one topic that have a dead letter. The zero value is empty and ready for use.
type DeadLetters struct {
	partitions map[int32]*deadLetterSet
	deleted    bool // NoteDeleted was called
}

// deadLetterSet holds the letters of one partition.
type deadLetterSet struct {
	records  bitmap.Set // offsets of records that are letters as a whole
	elements bitmap.Set // offset << 20 | part of elements of array records
}

// Add notes a letter. Its part is record.WholeRecord or the index of an element. Letters may come more than once.
func (l *DeadLetters) Add(partition int32, offset int64, part int32) {
	if l.partitions == nil {
		l.partitions = map[int32]*deadLetterSet{}
	}
	s := l.partitions[partition]
	if s == nil {
		s = &deadLetterSet{}
		l.partitions[partition] = s
	}
	switch {
	case part == record.WholeRecord:
		s.records.Add(uint64(offset))
	case part >= 0 && part < timeseries.MaxParts && offset < maxPartOffset:
		s.elements.Add(uint64(offset)<<20 | uint64(part))
	}
}

// NoteDeleted records that the dead-letter topic no longer has all letters that were written to it, as after a re-drive. Then it
// is unknown whether a record without a letter once had one.
func (l *DeadLetters) NoteDeleted() { l.deleted = true }

// has reports whether there is a letter for a measurement or for its whole record.
func (l *DeadLetters) has(partition int32, p timeseries.Position) bool {
	s := l.partitions[partition]
	if s == nil {
		return false
	}
	return s.records.Has(uint64(p.Offset)) ||
		p.Offset < maxPartOffset && s.elements.Has(uint64(p.Offset)<<20|uint64(p.Part))
}
