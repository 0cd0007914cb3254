package timeseries

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"waterwheel/internal/bitmap"
)

// MaxParts is the largest number of measurements in one record. The parts of an array record are 0 to MaxParts-1.
const MaxParts = 1 << 20

// Position is the place of one measurement in its source partition.
type Position struct {
	// Offset is the Kafka offset of the record.
	Offset int64 `json:"offset"`
	// Part is the index of the measurement in an array record. It is 0 for a record with a single measurement.
	Part int32 `json:"part"`
}

// Compare orders positions by offset, then by part.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Part, q.Part))
}

// Source is the partition from which a bucket's measurements come. A bucket has exactly one.
type Source struct {
	Topic     string
	TopicID   [16]byte // a topic that is deleted and created again gets another id
	Partition int32
}

// Compare orders sources by topic id, then by partition.
func (s Source) Compare(t Source) int {
	return cmp.Or(bytes.Compare(s.TopicID[:], t.TopicID[:]), cmp.Compare(s.Partition, t.Partition))
}

// ErrPositions is wrapped by every error about encoded positions.
var ErrPositions = errors.New("malformed positions")

// AppendPositions appends the encoding of positions, in the given order, as one element of control.source.offsets. Each position
// is an unsigned varint of zigzag(offset − previous offset) << 1. The first offset counts from 0. The varint's low bit says that
// the part follows as one more varint. A part of 0 is left out, so a list has exactly one encoding.
//
// Offsets must be at least 0 and parts below MaxParts. DecodePositions refuses other positions.
func AppendPositions(dst []byte, ps []Position) []byte {
	var previous int64
	for _, p := range ps {
		delta := p.Offset - previous
		previous = p.Offset
		zigzag := uint64(delta)<<1 ^ uint64(delta>>63)
		// The shifted value may need 65 bits, so the varint's first byte is made by hand.
		b := byte(zigzag&0x3f) << 1
		if p.Part != 0 {
			b |= 1
		}
		if zigzag >>= 6; zigzag == 0 {
			dst = append(dst, b)
		} else {
			dst = binary.AppendUvarint(append(dst, b|0x80), zigzag)
		}
		if p.Part != 0 {
			dst = binary.AppendUvarint(dst, uint64(p.Part))
		}
	}
	return dst
}

// DecodePositions appends the positions encoded in b to dst. It accepts only what AppendPositions writes. On an error,
// which wraps ErrPositions, dst is returned as it was.
func DecodePositions(dst []Position, b []byte) ([]Position, error) {
	kept := len(dst)
	var p Position
	for at := 0; at < len(b); {
		n, err := p.decode(b[at:])
		if err != nil {
			return dst[:kept], fmt.Errorf("byte %d: %w", at, err)
		}
		dst = append(dst, p)
		at += n
	}
	return dst, nil
}

// CountPositions returns the number of positions encoded in b. It makes the checks of DecodePositions.
func CountPositions(b []byte) (int, error) {
	count := 0
	var p Position
	for at := 0; at < len(b); count++ {
		n, err := p.decode(b[at:])
		if err != nil {
			return 0, fmt.Errorf("byte %d: %w", at, err)
		}
		at += n
	}
	return count, nil
}

// decode reads the position at the start of b, which is not empty, into p. p must hold the previous position. decode returns the
// number of bytes read.
func (p *Position) decode(b []byte) (int, error) {
	n := 1
	zigzag := uint64(b[0]>>1) & 0x3f
	if b[0]&0x80 != 0 {
		high, m := uvarint(b[1:])
		if m == 0 || high == 0 || high>>58 != 0 {
			return 0, fmt.Errorf("%w: an offset is truncated, too large or not in its shortest form", ErrPositions)
		}
		zigzag |= high << 6
		n += m
	}
	// A sum beyond int64 wraps to a negative offset, because the previous offset is not negative.
	offset := p.Offset + (int64(zigzag>>1) ^ -int64(zigzag&1))
	if offset < 0 {
		return 0, fmt.Errorf("%w: an offset is below 0", ErrPositions)
	}
	p.Offset, p.Part = offset, 0
	if b[0]&1 == 0 {
		return n, nil
	}
	part, m := uvarint(b[n:])
	if m == 0 || part == 0 || part >= MaxParts {
		return 0, fmt.Errorf("%w: an array index is outside 1 to %d", ErrPositions, MaxParts-1)
	}
	p.Part = int32(part)
	return n + m, nil
}

// uvarint reads a varint in its shortest form. A length of 0 means that there is none.
func uvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n <= 0 || b[n-1] == 0 && n > 1 {
		return 0, 0
	}
	return v, n
}

// maxWindow bounds the offsets of a PositionSet.
const maxWindow = 1 << 32

// PositionSet is the set of stored positions in a window of offsets, which are those of E2. Most positions have part 0, and take
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
		return false // the case of nearly every record once the stored positions are passed
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
