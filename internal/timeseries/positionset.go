package timeseries

import (
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/RoaringBitmap/roaring/v2/roaring64"
)

// maxWindow bounds the offsets of a PositionSet, so that an offset counted from its start fits 32 bits.
const maxWindow = 1 << 32

// PositionSet is the set of stored positions in a window of offsets, which is the D of E2. Most positions have part 0, and take
// at most one bit per offset.
type PositionSet struct {
	start, end int64
	max        int64             // largest offset in the set, or start-1 for an empty set
	whole      *roaring.Bitmap   // offset − start of the positions of part 0
	parts      *roaring64.Bitmap // (offset − start) << 20 | part of the other positions

	added      int64 // positions added since size was measured
	containers int64 // number of containers when size was measured
	size       int64
}

// NewPositionSet makes an empty set for the offsets in [start, end), at most 2^32 of them. It ignores positions outside of this
// window, so the window must hold every offset that will be asked for (E2).
func NewPositionSet(start, end int64) *PositionSet {
	if start < 0 || end < start || end-start > maxWindow {
		panic(fmt.Sprintf("E2: offsets [%d, %d) are no window of stored positions", start, end))
	}
	return &PositionSet{start: start, end: end, max: start - 1, whole: roaring.New(), parts: roaring64.New()}
}

// Window returns the range of offsets, [start, end), for which the set answers.
func (s *PositionSet) Window() (start, end int64) { return s.start, s.end }

// Add adds a position, unless it lies outside the window.
func (s *PositionSet) Add(p Position) {
	if p.Offset < s.start || p.Offset >= s.end {
		return
	}
	s.max = max(s.max, p.Offset)
	s.added++
	if p.Part == 0 {
		s.whole.Add(uint32(p.Offset - s.start))
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
	s.whole.RemoveRange(uint64(end-s.start), maxWindow)
	s.parts.RemoveRange(s.key(Position{Offset: end}), math.MaxUint64)
	s.end, s.max = end, s.start-1
	if !s.whole.IsEmpty() {
		s.max = s.start + int64(s.whole.Maximum())
	}
	if !s.parts.IsEmpty() {
		s.max = max(s.max, s.start+int64(s.parts.Maximum()>>20))
	}
	s.measure()
}

// Contains reports whether a position is stored. It is false outside the window.
func (s *PositionSet) Contains(p Position) bool {
	if p.Offset > s.max || p.Offset < s.start {
		return false // the case of nearly every record once D is passed
	}
	if p.Part == 0 {
		return s.whole.Contains(uint32(p.Offset - s.start))
	}
	return s.parts.Contains(s.key(p))
}

// Max returns the largest offset in the set. False means that the set is empty. The set is of no use for larger offsets.
func (s *PositionSet) Max() (offset int64, ok bool) { return s.max, s.max >= s.start }

// Len returns the number of positions in the set.
func (s *PositionSet) Len() int {
	return int(s.whole.GetCardinality() + s.parts.GetCardinality())
}

// Costs of the containers of a bitmap on the heap, in bytes.
const (
	containerBytes = 64  // the object of a container of 2^16 values, and its place in the bitmap's lists
	branchBytes    = 100 // the same for each bitmap of 2^32 values in a 64-bit bitmap
)

// Bytes estimates the memory of the set in bytes, rather too high than too low. It is cheap enough to call after every Add. It
// measures the containers only after more positions than containers were added. Until then each added position counts as a
// container.
func (s *PositionSet) Bytes() int64 {
	if s.added > s.containers {
		s.measure()
	}
	return s.size + s.added*containerBytes
}

func (s *PositionSet) measure() {
	whole, parts := s.whole.Stats(), s.parts.Stats()
	s.added, s.containers = 0, int64(whole.Containers+parts.Containers)
	s.size = containersSize(whole) + containersSize(parts)
	if parts.Containers > 0 {
		branches := (s.max-s.start)>>(32-20) + 1
		s.size += branchBytes * min(branches, int64(parts.Containers))
	}
}

// containersSize counts arrays twice, because they grow by doubling.
func containersSize(s roaring.Statistics) int64 {
	return int64(s.Containers*containerBytes + 2*s.ArrayContainerBytes + s.BitmapContainerBytes + s.RunContainerBytes)
}

func (s *PositionSet) key(p Position) uint64 {
	return uint64(p.Offset-s.start)<<20 | uint64(p.Part)
}
