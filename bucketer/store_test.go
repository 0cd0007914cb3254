package bucketer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// store is the database as far as a catalog's writes and look-ups need one.
type store struct {
	t       testing.TB
	options timeseries.Options
	order   []bson.ObjectID // of insertion
	byID    map[bson.ObjectID]bson.D
}

func newStore(t testing.TB, o timeseries.Options) *store {
	return &store{t: t, options: o, byID: map[bson.ObjectID]bson.D{}}
}

// apply executes a write; false when it does not match, or its _id is taken.
func (s *store) apply(w *Write) bool {
	s.t.Helper()
	if w.Kind == Insert {
		if _, taken := s.byID[w.ID]; taken {
			return false
		}
		s.put(w.ID, decode(s.t, w.Document))
		return true
	}
	d, ok := s.byID[w.ID]
	if !ok || !matches(s.t, d, decode(s.t, w.Filter)) {
		return false
	}
	s.byID[w.ID] = update(s.t, d, decode(s.t, w.Document))
	return true
}

func (s *store) put(id bson.ObjectID, d bson.D) {
	s.order = append(s.order, id)
	s.byID[id] = d
}

// answer is what the sink would find for a look-up: the buckets of the series in the window, or the one with the _id.
func (s *store) answer(l Lookup) Answer {
	a := Answer{Lookup: l}
	for _, id := range s.order {
		d, ok := s.byID[id]
		if !ok {
			continue
		}
		if l.ID != (bson.ObjectID{}) {
			if id != l.ID {
				continue
			}
		} else {
			date, ok := at(s.t, d, "control.min."+s.options.TimeField).(bson.DateTime)
			minTime := int64(date)
			if !ok || seriesKey(s.t, d) != l.Series || minTime > l.Time || minTime <= l.Time-s.options.Span() {
				continue
			}
		}
		a.Candidates = append(a.Candidates, candidateOf(s.t, d))
	}
	return a
}

// candidateOf is a bucket without its columns, with the size that the server would tell: without what only waterwheel
// keeps in control.
func candidateOf(t testing.TB, d bson.D) Candidate {
	var short, plain bson.D
	for _, e := range d {
		if e.Key != timeseries.FieldData {
			short = append(short, e)
		}
		if control, ok := e.Value.(bson.D); ok && e.Key == timeseries.FieldControl {
			control = slices.DeleteFunc(slices.Clone(control), func(e bson.E) bool {
				return slices.Contains([]string{timeseries.FieldCount, timeseries.FieldSize, timeseries.FieldSource}, e.Key)
			})
			e.Value = control
		}
		plain = append(plain, e)
	}
	return Candidate{Document: encode(t, short), Size: int32(len(encode(t, plain)))}
}

func seriesKey(t testing.TB, d bson.D) string {
	meta, err := bson.Raw(encode(t, d)).LookupErr(timeseries.FieldMeta)
	if err != nil {
		return ""
	}
	return string(byte(meta.Type)) + string(meta.Value)
}

func decode(t testing.TB, raw []byte) bson.D {
	t.Helper()
	var d bson.D
	if err := bson.Raw(raw).Validate(); err != nil {
		t.Fatalf("the catalog wrote malformed BSON: %v", err)
	}
	if err := bson.Unmarshal(raw, &d); err != nil {
		t.Fatalf("reading a document: %v", err)
	}
	return d
}

func encode(t testing.TB, d bson.D) []byte {
	t.Helper()
	if d == nil {
		d = bson.D{}
	}
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatalf("encoding %v: %v", d, err)
	}
	return raw
}

// at is the value under a dotted path, nil if there is none.
func at(t testing.TB, d any, path string) any {
	t.Helper()
	name, rest, more := strings.Cut(path, ".")
	doc, ok := d.(bson.D)
	if !ok {
		return nil
	}
	for _, e := range doc {
		if e.Key == name {
			if more {
				return at(t, e.Value, rest)
			}
			return e.Value
		}
	}
	return nil
}

// matches evaluates a filter of equalities, $eq, $ne and $exists.
func matches(t testing.TB, d, filter bson.D) bool {
	t.Helper()
	for _, condition := range filter {
		have := at(t, d, condition.Key)
		operators, ok := condition.Value.(bson.D)
		if !ok {
			operators = bson.D{{Key: "$eq", Value: condition.Value}}
		}
		for _, o := range operators {
			var holds bool
			switch o.Key {
			case "$eq":
				holds = have != nil && equal(t, have, o.Value) || have == nil && o.Value == nil && hasNull(d, condition.Key)
			case "$ne":
				holds = have == nil || !equal(t, have, o.Value)
			case "$exists":
				holds = (have != nil || hasNull(d, condition.Key)) == o.Value.(bool)
			default:
				t.Fatalf("unknown operator %s in a filter", o.Key)
			}
			if !holds {
				return false
			}
		}
	}
	return true
}

// hasNull tells a top-level null from an absent field.
func hasNull(d bson.D, name string) bool {
	return slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == name && e.Value == nil })
}

func equal(t testing.TB, a, b any) bool {
	return string(encode(t, bson.D{{Key: "v", Value: a}})) == string(encode(t, bson.D{{Key: "v", Value: b}}))
}

// update applies $set, $push, $min and $max.
func update(t testing.TB, d, operators bson.D) bson.D {
	t.Helper()
	for _, o := range operators {
		for _, e := range sortedByNumber(o.Value.(bson.D)) {
			value := e.Value
			have := at(t, d, e.Key)
			switch o.Key {
			case "$set":
			case "$push":
				value = append(slices.Clone(have.(bson.A)), e.Value)
			case "$min":
				value = min(have.(int64), e.Value.(int64))
			case "$max":
				value = max(have.(int64), e.Value.(int64))
			default:
				t.Fatalf("unknown operator %s in an update", o.Key)
			}
			d = set(t, d, e.Key, value).(bson.D)
		}
	}
	return d
}

// sortedByNumber checks that no path leads to or into another, which MongoDB refuses, and orders paths as it applies
// them: numbers by their value.
func sortedByNumber(set bson.D) bson.D {
	sorted := slices.Clone(set)
	slices.SortStableFunc(sorted, func(a, b bson.E) int {
		x, y := strings.Split(a.Key, "."), strings.Split(b.Key, ".")
		for i := range min(len(x), len(y)) {
			m, errM := strconv.Atoi(x[i])
			n, errN := strconv.Atoi(y[i])
			if errM == nil && errN == nil && m != n {
				return cmp.Compare(m, n)
			}
			if c := strings.Compare(x[i], y[i]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(x), len(y))
	})
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1].Key, sorted[i].Key; a == b || strings.HasPrefix(b, a+".") {
			panic(fmt.Sprintf("paths in conflict: %s and %s", a, b))
		}
	}
	return sorted
}

// set returns d with a value under a dotted path; objects on the way are made. A path into an array is not expected.
func set(t testing.TB, d any, path string, value any) any {
	t.Helper()
	name, rest, more := strings.Cut(path, ".")
	doc, ok := d.(bson.D)
	if d != nil && !ok {
		t.Fatalf("the path %s leads through a %T", path, d)
	}
	doc = slices.Clone(doc)
	for i := range doc {
		if doc[i].Key == name {
			if more {
				value = set(t, doc[i].Value, rest, value)
			}
			doc[i].Value = value
			return doc
		}
	}
	if more {
		value = set(t, nil, rest, value)
	}
	return append(doc, bson.E{Key: name, Value: value})
}
