package timeseries

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
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
