package bucketer

import (
	"encoding/binary"
	"maps"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// sharedBytes is the largest memory of a shape that buckets share. It is enough for some hundred fields, at all depths.
const sharedBytes = 64 << 10

// shape is the fields of a bucket, in the order of its columns, with the known types of their values (a schema). Buckets with
// the same fields share one shape, which then never changes. A very large shape belongs to one bucket and grows in place.
// Otherwise a stream with a new name in every measurement, perhaps within an object, would make a shape for each.
type shape struct {
	schema
	shared bool
	users  int32  // number of buckets with this shape, if it is shared
	next   *shape // the shape that a measurement with new plain fields last made of this one
	bytes  int64
	layout layout
}

// survey is the result of one walk over a measurement's elements, with regard to a bucket.
type survey struct {
	values  int64 // bytes that the values add to the columns, without the digits of their indexes
	columns int64 // bytes of columns that are new to the bucket
	fields  int32 // elements of the measurement
	match   match
	nested  bool // an object or array has something new
	// unordered means that the fields do not have the order of the columns, so that a name may be there twice.
	unordered bool
}

// field reads the first element of b. Its kind is b[0], its name b[1:start-1], its value b[start:end]. The result at is the
// index of its column, or -1; hint is its probable value. An end of -1 means that the element is malformed.
func (s *shape) field(b []byte, hint int) (at, start, end int) {
	if hint < len(s.members) {
		name := s.members[hint].name
		if n := len(name); len(b) >= n+2 && b[n+1] == 0 && string(b[1:n+1]) == name {
			size := rawbson.Size(bson.Type(b[0]), b[n+2:])
			if size < 0 || size > len(b)-n-2 {
				return -1, 0, -1
			}
			return hint, n + 2, n + 2 + size
		}
	}
	e, rest, ok := rawbson.Read(b)
	if !ok {
		return -1, 0, -1
	}
	end = len(b) - len(rest)
	return s.find(e.Name, hint), end - len(e.Value), end
}

// survey compares elements with the shape and accounts for their size.
func (s *shape) survey(elements []byte) survey {
	if s.layout.fits(elements) {
		return s.layout.survey
	}
	v := s.surveyEach(elements)
	if v.match == fits && !v.unordered {
		s.layout.learn(elements, v)
	}
	return v
}

// surveyEach is survey without the layout, element by element.
func (s *shape) surveyEach(elements []byte) survey {
	var v survey
	hint := 0
	for b := elements; len(b) > 0; {
		at, start, end := s.field(b, hint)
		if end < 0 {
			return survey{match: malformed}
		}
		v.fields++
		v.values += int64(2 + end - start)
		kind, data := bson.Type(b[0]), b[start:end]
		b = b[end:]
		if at < 0 {
			v.columns += columnBytes(start-2, end-start)
			v.addMatch(grows)
			v.checkNested(nil, kind, data)
			continue
		}
		v.unordered = v.unordered || at < hint
		hint = at + 1
		known := &s.members[at]
		if known.rank != ranks[kind] {
			v.addMatch(clashes)
			v.checkNested(nil, kind, data)
		} else if rawbson.IsNested(kind) {
			v.checkNested(known.sub, kind, data)
		}
	}
	return v
}

func (v *survey) addMatch(m match) { v.match = max(v.match, m) }

func (v *survey) checkNested(known *schema, kind bson.Type, data []byte) {
	if !rawbson.IsNested(kind) {
		return
	}
	m := known.check(kind, data, 1)
	v.nested = v.nested || m != fits
	v.addMatch(m)
}

// columnBytes is MongoDB's accounted size of a new column: an empty object with its name, and its value in control.min and
// control.max.
func columnBytes(name, value int) int64 { return int64(12 + name + 2*(1+name+1+value)) }

// isPlainGrowth reports whether s is exactly the shape from, extended by the plain fields of elements that from lacks.
func (s *shape) isPlainGrowth(from *shape, elements []byte) bool {
	at, hint := len(from.members), 0
	for e := range rawbson.All(elements) {
		if known := from.find(e.Name, hint); known >= 0 {
			hint = known + 1
			continue
		}
		if at == len(s.members) || s.members[at].name != string(e.Name) || s.members[at].rank != ranks[e.Kind] {
			return false
		}
		at++
	}
	return at == len(s.members)
}

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

// shapes are the shapes that buckets share. A shape without a bucket stays for a while, because the next bucket of a series
// probably has the same fields.
type shapes struct {
	empty  *shape
	known  map[string]*shape
	total  int64 // bytes of the known ones
	unused int64 // the part of total without a bucket
	key    []byte
}

func newShapes() shapes {
	return shapes{empty: &shape{shared: true}, known: map[string]*shape{}}
}

// grow returns the shape of a bucket with shape s after it takes a measurement that was surveyed and does not clash.
func (t *shapes) grow(s *shape, elements []byte, v survey) *shape {
	if s.next != nil && !v.nested && s.next.isPlainGrowth(s, elements) {
		return s.next
	}
	grown := s
	if s.shared {
		grown = &shape{schema: s.copied(int(v.fields))}
		grown.bytes = shapeBytes + grown.schema.bytes()
	}
	grown.bytes += grown.learn(bson.TypeEmbeddedDocument, elements)
	if !s.shared || grown.bytes > sharedBytes {
		return grown
	}
	grown = t.share(grown)
	if !v.nested {
		s.next = grown
	}
	return grown
}

// extend gives a bucket its shape after it takes such a measurement.
func (t *shapes) extend(b *bucket, elements []byte, v survey) {
	grown := t.grow(b.shape, elements, v)
	t.hold(grown)
	t.release(b.shape)
	b.shape = grown
}

// share returns the known shape that equals s, or makes s the known one.
func (t *shapes) share(s *shape) *shape {
	t.key = s.appendKey(t.key[:0])
	if known, ok := t.known[string(t.key)]; ok {
		return known
	}
	if used := t.total - t.unused; t.unused > used+minSwept {
		t.sweep()
	}
	s.shared = true
	s.bytes += classBytes(len(t.key)) + knownSlot*2
	t.known[string(t.key)] = s
	t.total += s.bytes
	t.unused += s.bytes
	return s
}

// hold notes that a bucket has a shape from now on.
func (t *shapes) hold(s *shape) {
	if !s.shared || s == t.empty {
		return
	}
	if s.users == 0 {
		t.unused -= s.bytes
	}
	s.users++
}

// release notes that a bucket no longer has a shape.
func (t *shapes) release(s *shape) {
	if !s.shared || s == t.empty {
		return
	}
	s.users--
	if s.users == 0 {
		t.unused += s.bytes
	}
}

// A sweep walks all known shapes, so it must be worth its while. When shapes are made, it must free more than half of them, and
// more than minSwept bytes. When memory is short, it must free more than one part in freedPart.
const (
	minSwept  = 1 << 20
	freedPart = 8
)

// garbage is the number of bytes that a sweep would free. Zero also means that they are not worth one.
func (t *shapes) garbage() int64 {
	if t.unused <= t.total/freedPart {
		return 0
	}
	return t.unused
}

// sweep drops the shapes without a bucket.
func (t *shapes) sweep() {
	t.empty.next = nil
	before := len(t.known)
	for key, s := range t.known {
		s.next = nil
		if s.users == 0 {
			delete(t.known, key)
		}
	}
	if len(t.known) < before/2 {
		t.known = maps.Collect(maps.All(t.known)) // a map never gives memory back by itself
	}
	t.total -= t.unused
	t.unused = 0
}
