package check

import (
	"encoding/binary"
	"fmt"
)

// Position is the place of a measurement in its partition. Part is the index within a record that is an array, and 0 otherwise.
type Position struct {
	Offset int64
	Part   int
}

// decodePositions reads one element of control.source.offsets. Each measurement is an unsigned varint, which holds zigzag(offset
// - previous offset) shifted left by one. If the low bit is set, the part follows as another varint.
func decodePositions(b []byte) ([]Position, error) {
	var positions []Position
	offset := int64(0)
	for at := 0; at < len(b); {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return nil, fmt.Errorf("a broken varint at byte %d of %x", at, b)
		}
		at += n
		zigzag := v >> 1
		offset += int64(zigzag>>1) ^ -int64(zigzag&1)
		position := Position{Offset: offset}
		if v&1 == 1 {
			part, n := binary.Uvarint(b[at:])
			if n <= 0 || part >= 1<<20 {
				return nil, fmt.Errorf("a broken part at byte %d of %x", at, b)
			}
			at += n
			position.Part = int(part)
		}
		if offset < 0 {
			return nil, fmt.Errorf("offset %d in %x", offset, b)
		}
		positions = append(positions, position)
	}
	return positions, nil
}
