package bucketer

import (
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// A layout has at most layoutWords words of eight bytes. It is learnt after layoutMisses measurements that did not fit. After a
// measurement that has no layout, none is learnt for layoutPause measurements.
const (
	layoutWords  = 32
	layoutMisses = 16
	layoutPause  = 1000
)

// layout describes most measurements of a shape. They have the same names and types in the same order, so their bytes are equal
// except for the values. One comparison then replaces a survey.
type layout struct {
	size   int // bytes of elements. Zero means that no layout is known.
	misses int
	survey survey
	bytes  [layoutWords]uint64
	mask   [layoutWords]uint64 // bits that must be equal; the last word ends with the elements
}

// fits reports whether elements have this layout.
func (l *layout) fits(elements []byte) bool {
	if len(elements) != l.size || l.size == 0 {
		return false
	}
	at, words := 0, len(elements)/8
	for rest := elements; at < words; at++ {
		if (binary.LittleEndian.Uint64(rest)^l.bytes[at])&l.mask[at] != 0 {
			return false
		}
		rest = rest[8:]
	}
	last := binary.LittleEndian.Uint64(elements[len(elements)-8:])
	return (last^l.bytes[at])&l.mask[at] == 0
}

// learn learns the layout of elements that fit the shape and are in order. Elements have a layout if the type of each value
// fixes its size. A text is allowed, too, but its size and its last byte must then be equal.
func (l *layout) learn(elements []byte, v survey) {
	l.misses++
	if len(elements) < 8 || len(elements)/8 >= layoutWords || l.misses < layoutMisses {
		return
	}
	var mask [8 * layoutWords]byte
	for rest := elements; len(rest) > 0; {
		at := len(elements) - len(rest)
		var e rawbson.Element
		rest = e.Cut(rest)
		header := 2 + len(e.Name)
		for i := range header {
			mask[at+i] = 0xff
		}
		value := mask[at+header:][:len(e.Value)]
		switch {
		case rawbson.IsFixed(e.Kind):
		case e.Kind == bson.TypeString:
			value[0], value[1], value[2], value[3], value[len(value)-1] = 0xff, 0xff, 0xff, 0xff, 0xff
		default:
			l.misses = -layoutPause
			return
		}
	}
	l.size, l.misses, l.survey = len(elements), 0, v
	words := len(elements) / 8
	for at := range words {
		l.bytes[at] = binary.LittleEndian.Uint64(elements[8*at:])
		l.mask[at] = binary.LittleEndian.Uint64(mask[8*at:])
	}
	l.bytes[words] = binary.LittleEndian.Uint64(elements[len(elements)-8:])
	l.mask[words] = binary.LittleEndian.Uint64(mask[len(elements)-8:])
}
