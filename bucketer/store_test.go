package bucketer

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// store is a database that supports a catalog's writes and look-ups.
type store struct {
	t          testing.TB
	options    timeseries.Options
	order      []bson.ObjectID // ids in the order of insertion
	byID       map[bson.ObjectID]bson.D
	candidates map[bson.ObjectID]Candidate // cached candidates of the present documents
	textOrder  bool                        // it applies the paths of a $set in the order of their text
}

func newStore(t testing.TB, o timeseries.Options) *store {
	return &store{t: t, options: o, byID: map[bson.ObjectID]bson.D{}, candidates: map[bson.ObjectID]Candidate{}}
}

// apply executes a write. It returns false if the write does not match, or if its _id is taken.
func (s *store) apply(w *Write) bool {
	d, ok := s.byID[w.ID]
	if w.Kind == Insert {
		if !ok {
			s.put(w.ID, decode(s.t, w.Document))
		}
		return !ok
	}
	filter := decode(s.t, w.Filter)
	minPath := timeseries.MinPath(s.options.TimeField)
	for _, path := range []string{timeseries.FieldID, timeseries.FieldMeta, minPath, timeseries.PathCount, timeseries.PathClosed} {
		if !slices.ContainsFunc(filter, func(e bson.E) bool { return e.Key == path }) {
			s.t.Errorf("E5: an update is sent without the condition on %s", path)
		}
	}
	if !ok || !matches(s.t, d, filter) {
		return false
	}
	s.put(w.ID, update(s.t, d, decode(s.t, w.Document), s.textOrder))
	return true
}

// put inserts a document or replaces it.
func (s *store) put(id bson.ObjectID, d bson.D) {
	if _, known := s.byID[id]; !known {
		s.order = append(s.order, id)
	}
	s.byID[id] = d
	delete(s.candidates, id)
}

func (s *store) remove(id bson.ObjectID) {
	s.order = slices.DeleteFunc(s.order, func(o bson.ObjectID) bool { return o == id })
	delete(s.byID, id)
	delete(s.candidates, id)
}

// answer returns the sink's answer to a look-up, which is the buckets of the series in the window, or the bucket with the _id.
func (s *store) answer(l Lookup) Answer {
	a := Answer{Lookup: l}
	for _, id := range s.order {
		if l.ID == id || l.ID == (bson.ObjectID{}) && s.isWanted(s.byID[id], l) {
			a.Candidates = append(a.Candidates, s.candidate(id))
		}
	}
	return a
}

// isWanted evaluates the query of a look-up.
func (s *store) isWanted(d bson.D, l Lookup) bool {
	date, ok := at(d, timeseries.MinPath(s.options.TimeField)).(bson.DateTime)
	minTime := int64(date)
	return ok && minTime <= l.Time && minTime > l.Time-s.options.Span() && seriesKey(d) == l.Series
}

// candidate returns a bucket without its columns, with the size that the server would report. The size excludes waterwheel's own
// fields in control.
func (s *store) candidate(id bson.ObjectID) Candidate {
	if known, ok := s.candidates[id]; ok {
		return known
	}
	var short, plain bson.D
	for _, e := range s.byID[id] {
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
	made := Candidate{Document: encode(s.t, short), Size: int32(len(encode(s.t, plain)))}
	s.candidates[id] = made
	return made
}

// seriesKey returns the key of a stored bucket's series.
func seriesKey(d bson.D) string {
	for _, e := range d {
		if e.Key == timeseries.FieldMeta {
			return keyOf(e.Value)
		}
	}
	return ""
}

// keyOf returns the key of the series with this meta.
func keyOf(meta any) string {
	raw := rawOf(meta)
	return string(byte(raw.Type)) + string(raw.Value)
}

// matches evaluates a filter of equalities, $eq, $ne and $exists.
func matches(t testing.TB, d, filter bson.D) bool {
	for _, condition := range filter {
		have := at(d, condition.Key)
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

// hasNull distinguishes a top-level null from an absent field.
func hasNull(d bson.D, name string) bool {
	return slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == name && e.Value == nil })
}

// update applies $set, $push, $min and $max. A $min or $max without a change is an error.
func update(t testing.TB, d, operators bson.D, textOrder bool) bson.D {
	for _, o := range operators {
		for _, e := range inOrderOfPaths(t, o.Value.(bson.D), textOrder) {
			value := e.Value
			have := at(d, e.Key)
			switch o.Key {
			case "$set":
				if isBound(e.Key) && have != nil && equal(t, have, value) {
					t.Errorf("%s is set to what it is: %s", e.Key, text(value))
				}
			case "$push":
				value = append(slices.Clone(have.(bson.A)), e.Value)
			case "$min":
				value = min(have.(int64), e.Value.(int64))
			case "$max":
				value = max(have.(int64), e.Value.(int64))
			default:
				t.Fatalf("unknown operator %s in an update", o.Key)
			}
			d = set(t, d, e.Key, value)
		}
	}
	return d
}

// isBound reports whether a path leads into control.min or control.max.
func isBound(path string) bool {
	return strings.HasPrefix(path, timeseries.MinPath("")) || strings.HasPrefix(path, timeseries.MaxPath(""))
}

// inOrderOfPaths checks that no path is a prefix of another, which MongoDB refuses. It orders paths as MongoDB applies them, that
// is, numbers by value, or all in the order of their text.
func inOrderOfPaths(t testing.TB, set bson.D, textOrder bool) bson.D {
	if !slices.IsSortedFunc(set, comparePaths) {
		set = slices.SortedStableFunc(slices.Values(set), comparePaths)
	}
	for i := 1; i < len(set); i++ {
		if a, b := set[i-1].Key, set[i].Key; a == b || strings.HasPrefix(b, a) && b[len(a)] == '.' {
			t.Fatalf("paths in conflict: %s and %s", a, b)
		}
	}
	if textOrder {
		return byName(set)
	}
	return set
}

func comparePaths(a, b bson.E) int {
	x, moreX := a.Key, true
	y, moreY := b.Key, true
	for moreX && moreY {
		var p, q string
		p, x, moreX = strings.Cut(x, ".")
		q, y, moreY = strings.Cut(y, ".")
		if p != q {
			if isNumber(p) && isNumber(q) {
				return cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q))
			}
			return strings.Compare(p, q)
		}
	}
	return cmp.Compare(len(x), len(y))
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
