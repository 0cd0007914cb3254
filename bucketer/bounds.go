package bucketer

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// side selects the kept extreme. It is the sign of the comparison of a newcomer with the kept value if the newcomer is to
// replace it.
type side int

const (
	lower side = -1
	upper side = +1
)

// maxMerged is how many bytes of merged values share one scratch buffer.
const maxMerged = 256 << 10

// value is a BSON value that points into other memory.
type value struct {
	kind bson.Type
	data []byte
}

// equals reports whether two values have the same type and bytes. Values that compare as equal may differ in these.
func (v value) equals(w value) bool { return v.kind == w.kind && bytes.Equal(v.data, w.data) }

func (v value) raw() bson.RawValue { return bson.RawValue{Type: v.kind, Value: v.data} }

// extremes are the minimum and the maximum of one field.
type extremes struct {
	lower, upper value
	// knownLower and knownUpper are the extremes that the bucket has, in place. Kind 0 means a new field.
	knownLower, knownUpper value
	lowered, raised        bool // lower or upper may differ from the known one
}

// include widens the extremes by a value. It builds merged values at the end of scratch, and returns the grown scratch.
func (x *extremes) include(v value, scratch []byte) []byte {
	if x.lower.kind == 0 {
		x.lower, x.upper, x.lowered, x.raised = v, v, true, true
		return scratch
	}
	if !rawbson.IsNested(v.kind) && x.lower.kind == v.kind && x.upper.kind == v.kind {
		if compareSame(v, x.lower) < 0 {
			x.lower, x.lowered = v, true
		} else if compareSame(v, x.upper) > 0 {
			x.upper, x.raised = v, true
		}
		return scratch
	}
	x.lower, scratch = lower.merge(x.lower, v, scratch)
	x.upper, scratch = upper.merge(x.upper, v, scratch)
	x.lowered, x.raised = true, true
	return scratch
}

// compareSame compares two values of the same plain type. Doubles need no call.
func compareSame(v, w value) int {
	if v.kind == bson.TypeDouble {
		a := math.Float64frombits(binary.LittleEndian.Uint64(v.data))
		b := math.Float64frombits(binary.LittleEndian.Uint64(w.data))
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		case a == b:
			return 0
		}
		// NaN is below all.
	}
	return timeseries.Compare(v.raw(), w.raw())
}

// merge returns the extreme of a kept value and a newcomer. Objects are merged field by field, and arrays position by position.
// Any other newcomer must be strictly beyond the kept value. If neither value is the extreme as a whole, merge builds the
// result at the end of scratch.
func (d side) merge(kept, v value, scratch []byte) (value, []byte) {
	if kept.kind != v.kind || !rawbson.IsNested(v.kind) {
		if d.isBeyond(v, kept) {
			return v, scratch
		}
		return kept, scratch
	}
	if len(scratch) > maxMerged {
		scratch = nil // most of these values were merged again since
	}
	start := len(scratch)
	scratch, improved := d.build(scratch, kept, v)
	if !improved {
		return kept, scratch[:start]
	}
	return value{kind: v.kind, data: scratch[start:len(scratch):len(scratch)]}, scratch
}

// isBeyond reports whether a newcomer replaces a kept value.
func (d side) isBeyond(v, kept value) bool {
	if v.kind == kept.kind {
		return int(d)*compareSame(v, kept) > 0
	}
	return int(d)*timeseries.Compare(v.raw(), kept.raw()) > 0
}

// build appends the merge of two values of the same nested kind: the members of the kept one, then the new members. It reports
// afterwards whether that improved the kept value. To find that out first would take another walk at each depth.
func (d side) build(dst []byte, kept, v value) (_ []byte, improved bool) {
	start, dst := bsoncore.AppendDocumentStart(dst)
	newcomers := finder{kind: v.kind, rest: rawbson.Content(v.data)}
	for rest := rawbson.Content(kept.data); len(rest) > 0; {
		if newcomers.isEmpty() {
			dst = append(dst, rest...)
			break
		}
		old, after, _ := rawbson.Read(rest)
		whole := rest[:len(rest)-len(after)]
		rest = after
		e, ok := newcomers.next(old.Name)
		was, now := value{old.Kind, old.Value}, value{e.Kind, e.Value}
		switch {
		case !ok:
			dst = append(dst, whole...)
		case was.kind == now.kind && rawbson.IsNested(now.kind):
			var within bool
			dst = append(append(append(dst, byte(now.kind)), old.Name...), 0)
			dst, within = d.build(dst, was, now)
			improved = improved || within
		case d.isBeyond(now, was):
			dst = rawbson.AppendElement(dst, now.kind, old.Name, now.data)
			improved = true
		default:
			dst = append(dst, whole...)
		}
	}
	improved = improved || !newcomers.isEmpty()
	dst, _ = bsoncore.AppendDocumentEnd(newcomers.appendRest(dst), start)
	return dst, improved
}

// finder finds the members of an object by name, or of an array by position, each once. It expects requests in the members'
// order, or for names that are missing. After a request out of order it reads small objects again, and spreads large ones out.
type finder struct {
	kind  bson.Type
	rest  []byte // elements; the first one was not found yet
	found uint64 // bits of the elements of rest that were found
	reads int    // how often rest was read for a member other than its first element
	spread
}

// Below these limits reading elements again is quicker than spreading them out.
const (
	smallObject = 256
	mostReads   = 32
)

// next returns the member with a name. In an array it returns the next member, whatever the name.
func (f *finder) next(name []byte) (rawbson.Element, bool) {
	if f.members != nil {
		return f.spread.find(name)
	}
	if len(f.rest) == 0 {
		return rawbson.Element{}, false
	}
	e, after, _ := rawbson.Read(f.rest)
	if f.kind == bson.TypeArray || bytes.Equal(e.Name, name) {
		f.rest, f.found = after, f.found>>1
		f.skip()
		return e, true
	}
	if len(after) == 0 {
		return rawbson.Element{}, false
	}
	if len(after) > smallObject || f.reads == mostReads {
		f.spread = spreadOut(f.rest, f.found)
		return f.spread.find(name)
	}
	f.reads++
	return f.search(after, name)
}

// search looks for a name behind the first element. A member beyond the bits of found is not noted there; the elements are
// spread out.
func (f *finder) search(after, name []byte) (rawbson.Element, bool) {
	at := 1
	for e := range rawbson.All(after) {
		switch {
		case !bytes.Equal(e.Name, name) || f.found>>at&1 == 1:
		case at < 64:
			f.found |= 1 << at
			return e, true
		default:
			f.spread = spreadOut(f.rest, f.found)
			return f.spread.find(name)
		}
		at++
	}
	return rawbson.Element{}, false
}

// skip skips members that were already found.
func (f *finder) skip() {
	for ; f.found&1 == 1; f.found >>= 1 {
		_, f.rest, _ = rawbson.Read(f.rest)
	}
}

// isEmpty reports whether all members were found.
func (f *finder) isEmpty() bool {
	if f.members != nil {
		return f.left == 0
	}
	return len(f.rest) == 0
}

// appendRest appends the members that were not found, in their order.
func (f *finder) appendRest(dst []byte) []byte {
	for at, e := range f.members {
		if !f.spread.found[at] {
			dst = rawbson.AppendElement(dst, e.Kind, e.Name, e.Value)
		}
	}
	if f.members != nil {
		return dst
	}
	found := f.found
	for rest := f.rest; len(rest) > 0; found >>= 1 {
		_, after, _ := rawbson.Read(rest)
		if found&1 == 0 {
			dst = append(dst, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return dst
}

// spread holds the members of an object, which can be found in any order, each once.
type spread struct {
	members []rawbson.Element
	found   []bool
	left    int
	index   map[string]int // of the first member with a name, if there are more than indexed members
}

// spreadOut spreads out the elements that were not found yet. A set bit of found marks an element that was found.
func spreadOut(elements []byte, found uint64) spread {
	var s spread
	for e := range rawbson.All(elements) {
		if found&1 == 0 {
			s.members = append(s.members, e)
		}
		found >>= 1
	}
	s.left = len(s.members)
	s.found = make([]bool, s.left)
	if s.left > indexed {
		s.index = make(map[string]int, s.left)
		for at := s.left - 1; at >= 0; at-- {
			s.index[string(s.members[at].Name)] = at
		}
	}
	return s
}

func (s *spread) find(name []byte) (rawbson.Element, bool) {
	at, ok := s.index[string(name)]
	if s.index == nil {
		at = slices.IndexFunc(s.members, func(e rawbson.Element) bool { return bytes.Equal(e.Name, name) })
		ok = at >= 0
	}
	if !ok || s.found[at] {
		return rawbson.Element{}, false
	}
	s.found[at] = true
	s.left--
	return s.members[at], true
}
