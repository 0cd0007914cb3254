package bucketer

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// sharedBytes is up to how much memory a shape is shared by all buckets that have the same fields: enough for some
// hundred fields, at all depths.
const sharedBytes = 64 << 10

// shape is the fields of a bucket, in the order of its columns, with the known types of their values: a schema. Buckets
// with the same fields share one shape, which then never changes. A very large shape belongs to one bucket and grows in
// place, so that a stream whose every measurement has a new name, be it within an object, does not make a shape for each.
type shape struct {
	schema
	shared bool
	users  int32  // buckets of a shared one
	next   *shape // what a measurement of plain new fields last made of this one
	bytes  int64
	layout layout
}

// survey is what one walk over a measurement's elements says about it and a bucket.
type survey struct {
	values  int64 // bytes the values add to the columns, without the digits of their indexes
	columns int64 // bytes that columns new to the bucket add
	fields  int32 // elements of the measurement
	match   match
	nested  bool // something within an object or array is new
	// unordered means that the fields come in another order than the columns, so that one could stand twice.
	unordered bool
}

// field reads the first element of b: its kind is b[0], its name b[1:start-1], its value b[start:end]. at is the index of
// its column, which is probably hint, or -1. end is -1 when the element is malformed.
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

// surveyEach is survey, element by element.
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

// columnBytes is what MongoDB accounts for a new column: an empty object under its name, and its value in control.min
// and control.max.
func columnBytes(name, value int) int64 { return int64(12 + name + 2*(1+name+1+value)) }

// isPlainGrowth reports whether s is from with exactly the plain fields added that elements have and from has not.
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
