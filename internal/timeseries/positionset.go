package timeseries

import (
	"fmt"

	"waterwheel/internal/bitmap"
)

// maxWindow bounds the offsets of a PositionSet.
const maxWindow = 1 << 32

// PositionSet is the set of stored positions in a window of offsets, which is the D of E2. Most positions have part 0, and take
// at most one bit per offset.
type PositionSet struct {
	start, end int64
	max        int64      // largest offset in the set, or start-1 for an empty set
	whole      bitmap.Set // offset − start of the positions of part 0
	parts      bitmap.Set // (offset − start) << 20 | part of the other positions
}

// NewPositionSet makes an empty set for the offsets in [start, end), at most 2^32 of them. It ignores positions outside of this
// window, so the window must hold every offset that will be asked for (E2).
func NewPositionSet(start, end int64) *PositionSet {
	if start < 0 || end < start || end-start > maxWindow {
		panic(fmt.Sprintf("E2: offsets [%d, %d) are no window of stored positions", start, end))
	}
	return &PositionSet{start: start, end: end, max: start - 1}
}

// Window returns the range of offsets, [start, end), for which the set answers.
func (s *PositionSet) Window() (start, end int64) { return s.start, s.end }

// Add adds a position, unless it lies outside the window.
func (s *PositionSet) Add(p Position) {
	if p.Offset < s.start || p.Offset >= s.end {
		return
	}
	s.max = max(s.max, p.Offset)
	if p.Part == 0 {
		s.whole.Add(uint64(p.Offset - s.start))
		return
	}
	s.parts.Add(s.key(p))
}

// AddEncoded adds the positions of one element of control.source.offsets. It returns how many positions the element lists,
// including those outside the window. An element that cannot be decoded adds nothing and gives the error of CountPositions.
func (s *PositionSet) AddEncoded(b []byte) (n int, err error) {
	if n, err = CountPositions(b); err != nil {
		return 0, err
	}
	var p Position
	for len(b) > 0 {
		used, err := p.decode(b)
		if err != nil {
			return 0, err
		}
		b = b[used:]
		s.Add(p)
	}
	return n, nil
}

// Shrink moves the end of the window down to end, and removes the positions beyond it. An end outside the window changes nothing.
func (s *PositionSet) Shrink(end int64) {
	if end < s.start || end >= s.end {
		return
	}
	s.whole.RemoveFrom(uint64(end - s.start))
	s.parts.RemoveFrom(s.key(Position{Offset: end}))
	s.end, s.max = end, s.start-1
	if last, ok := s.whole.Max(); ok {
		s.max = s.start + int64(last)
	}
	if last, ok := s.parts.Max(); ok {
		s.max = max(s.max, s.start+int64(last>>20))
	}
}

// Contains reports whether a position is stored. It is false outside the window.
func (s *PositionSet) Contains(p Position) bool {
	if p.Offset > s.max || p.Offset < s.start {
		return false // the case of nearly every record once D is passed
	}
	if p.Part == 0 {
		return s.whole.Has(uint64(p.Offset - s.start))
	}
	return s.parts.Has(s.key(p))
}

// Max returns the largest offset in the set. False means that the set is empty. The set is of no use for larger offsets.
func (s *PositionSet) Max() (offset int64, ok bool) { return s.max, s.max >= s.start }

// Len returns the number of positions in the set.
func (s *PositionSet) Len() int { return s.whole.Len() + s.parts.Len() }

// Bytes estimates the memory of the set in bytes. It is cheap enough to call after every Add.
func (s *PositionSet) Bytes() int64 { return s.whole.Bytes() + s.parts.Bytes() }

func (s *PositionSet) key(p Position) uint64 {
	return uint64(p.Offset-s.start)<<20 | uint64(p.Part)
}
