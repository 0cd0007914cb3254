package bucketer

import (
	"bytes"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/timeseries"
)

// side is which extreme is kept: the sign that the comparison of a newcomer with the kept value must have.
type side int

const (
	lower side = -1
	upper side = +1
)

// maxMerged is how many bytes of merged values are built one behind the other.
const maxMerged = 256 << 10

// value is a BSON value in place.
type value struct {
	kind bson.Type
	data []byte
}

// equals tells that two values are the same bytes, which is more than comparing as equal.
func (v value) equals(w value) bool { return v.kind == w.kind && bytes.Equal(v.data, w.data) }

func (v value) raw() bson.RawValue { return bson.RawValue{Type: v.kind, Value: v.data} }

// extremes are minimum and maximum of one field.
type extremes struct {
	lower, upper value
	// known are the extremes that the bucket has, in place; kind 0 in a new field.
	knownLower, knownUpper value
	lowered, raised        bool // lower or upper may be another than the known one
}

// include widens the extremes by a value. What it builds goes behind scratch, whose grown form it returns.
func (x *extremes) include(v value, scratch []byte) []byte {
	if x.lower.kind == 0 {
		x.lower, x.upper, x.lowered, x.raised = v, v, true, true
		return scratch
	}
	if !isNested(v.kind) && x.lower.kind == v.kind && x.upper.kind == v.kind {
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

// compareSame compares two values of the same plain type, doubles without a call.
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

// merge returns the extreme of a kept value and a newcomer. Objects are merged field by field, arrays position by
// position; of anything else the newcomer must be strictly beyond the kept value. Where neither can be taken as it is the
// merged value is built behind scratch.
func (d side) merge(kept, v value, scratch []byte) (value, []byte) {
	if kept.kind != v.kind || !isNested(v.kind) {
		if int(d)*timeseries.Compare(v.raw(), kept.raw()) > 0 {
			return v, scratch
		}
		return kept, scratch
	}
	if !d.improves(kept, v) {
		return kept, scratch
	}
	if len(scratch) > maxMerged {
		scratch = nil // most of it are values that were merged again since
	}
	start := len(scratch)
	scratch = d.build(scratch, kept, v)
	return value{kind: v.kind, data: scratch[start:len(scratch):len(scratch)]}, scratch
}

// improves reports whether merging a newcomer changes a kept value of the same nested kind.
func (d side) improves(kept, v value) bool {
	known := finder{kind: kept.kind, document: kept.data}
	for rest := content(v.data); len(rest) > 0; {
		e, after, _ := readElement(rest)
		rest = after
		old, ok := known.next(e.name)
		if !ok || d.improvesMember(value{old.kind, old.value}, value{e.kind, e.value}) {
			return true
		}
	}
	return false
}

func (d side) improvesMember(kept, v value) bool {
	if kept.kind == v.kind && isNested(v.kind) {
		return d.improves(kept, v)
	}
	return int(d)*timeseries.Compare(v.raw(), kept.raw()) > 0
}

// build appends the merge of two values of the same nested kind: the members of the kept one, then what is new.
func (d side) build(dst []byte, kept, v value) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	newcomers := finder{kind: v.kind, document: v.data}
	position := 0
	for rest := content(kept.data); len(rest) > 0; position++ {
		old, after, _ := readElement(rest)
		rest = after
		e, ok := newcomers.next(old.name)
		if ok && d.improvesMember(value{old.kind, old.value}, value{e.kind, e.value}) {
			if old.kind != e.kind || !isNested(e.kind) {
				dst = appendElement(dst, e.kind, old.name, e.value)
				continue
			}
			dst = append(append(append(dst, byte(e.kind)), old.name...), 0)
			dst = d.build(dst, value{old.kind, old.value}, value{e.kind, e.value})
			continue
		}
		dst = appendElement(dst, old.kind, old.name, old.value)
	}
	known := finder{kind: kept.kind, document: kept.data}
	for rest := content(v.data); len(rest) > 0; {
		e, after, _ := readElement(rest)
		rest = after
		if _, ok := known.next(e.name); !ok {
			dst = appendElement(dst, e.kind, e.name, e.value)
		}
	}
	dst, _ = bsoncore.AppendDocumentEnd(dst, start)
	return dst
}

// appendElement appends a BSON element.
func appendElement(dst []byte, kind bson.Type, name, data []byte) []byte {
	dst = append(dst, byte(kind))
	dst = append(append(dst, name...), 0)
	return append(dst, data...)
}

// finder finds the members of an object by name, of an array by position. It expects to be asked in their order.
type finder struct {
	kind     bson.Type
	document []byte
	rest     []byte
	started  bool
	index    map[string]element
}

// next returns the member for a name; in an array the next one, whatever the name.
func (f *finder) next(name []byte) (element, bool) {
	if !f.started {
		f.rest, f.started = content(f.document), true
	}
	if len(f.rest) > 0 {
		e, after, _ := readElement(f.rest)
		if f.kind == bson.TypeArray || bytes.Equal(e.name, name) {
			f.rest = after
			return e, true
		}
	}
	if f.kind == bson.TypeArray {
		return element{}, false
	}
	return f.search(name)
}

// smallDocument is up to how many bytes a search without an index is the quicker one.
const smallDocument = 256

// search looks everywhere in the object. The first of two members with the same name counts.
func (f *finder) search(name []byte) (element, bool) {
	if f.index != nil {
		e, ok := f.index[string(name)]
		return e, ok
	}
	index := len(f.document) > smallDocument
	if index {
		f.index = map[string]element{}
	}
	for rest := content(f.document); len(rest) > 0; {
		e, after, _ := readElement(rest)
		rest = after
		switch {
		case index:
			if _, twin := f.index[string(e.name)]; !twin {
				f.index[string(e.name)] = e
			}
		case bytes.Equal(e.name, name):
			f.rest = after
			return e, true
		}
	}
	if index {
		return f.search(name)
	}
	return element{}, false
}
