package bucketer

import (
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// elementsOf returns a measurement's elements, which are those of a document without some fields.
func elementsOf(t testing.TB, d bson.D, without ...any) []byte {
	var kept bson.D
	for _, e := range d {
		skip := false
		for _, name := range without {
			skip = skip || name == e.Key
		}
		if !skip {
			kept = append(kept, e)
		}
	}
	return rawbson.Content(encode(t, kept))
}

// runSchemaCase checks documents one after the other against the schema of the documents before.
func runSchemaCase(t *testing.T, one conformanceCase) {
	known := newShapes()
	s := known.empty
	for i, step := range at(one.fields, "steps").(bson.A) {
		elements := elementsOf(t, at(step, "doc").(bson.D))
		v := s.survey(elements)
		if want := at(step, "compatible").(bool); (v.match < clashes) != want {
			t.Errorf("step %d: %s: compatible is %v, want %v", i, text(step), !want, want)
		}
		if v.match == grows {
			s = known.grow(s, elements, v)
		}
	}
}

// runMinMaxCase merges measurements into the bounds. It reads the bounds, and their changes since the last read in the form of
// MongoDB's diffs.
func runMinMaxCase(t *testing.T, one conformanceCase) {
	sides := map[string]*struct {
		side        side
		known, told bson.D
	}{"min": {side: lower}, "max": {side: upper}}
	for i, step := range at(one.fields, "steps").(bson.A) {
		if doc := at(step, "update"); doc != nil {
			for _, s := range sides {
				v := value{bson.TypeEmbeddedDocument, appendFields(nil, elementsOf(t, doc.(bson.D), at(one.fields, "metaField")))}
				merged, _ := s.side.merge(value{bson.TypeEmbeddedDocument, encode(t, s.known)}, v, nil)
				s.known = decode(t, merged.data)
			}
			continue
		}
		read := at(step, "read").(string)
		s := sides[read[:3]]
		var got bson.D
		switch read[3:] {
		case "":
			got = s.known
		case "Updates":
			got = diff(t, s.told, s.known)
			checkChange(t, s.told, s.known)
		default:
			t.Fatalf("step %d: unknown read %q", i, read)
		}
		s.told = s.known
		if want := at(step, "expect"); !equal(t, sorted(got), sorted(want)) {
			t.Errorf("step %d: %s is %s, want %s", i, read, text(got), text(want))
		}
	}
}

// diff returns the change of a bound as MongoDB's delta update has it. u holds values that are new or replaced, and s<name> the
// changes within a value.
func diff(t *testing.T, before, after bson.D) bson.D {
	set, within := bson.D{}, bson.D{}
	for _, e := range after {
		old := at(before, e.Key)
		switch v := e.Value.(type) {
		case bson.D:
			if was, ok := old.(bson.D); ok {
				if sub := diff(t, was, v); len(sub) > 0 {
					within = append(within, bson.E{Key: "s" + e.Key, Value: sub})
				}
				continue
			}
		case bson.A:
			if was, ok := old.(bson.A); ok {
				if sub := diff(t, named(was), named(v)); len(sub) > 0 {
					within = append(within, bson.E{Key: "s" + e.Key, Value: flat(sub)})
				}
				continue
			}
		}
		if old == nil || !equal(t, old, e.Value) {
			set = append(set, e)
		}
	}
	if len(set) > 0 {
		return append(bson.D{{Key: "u", Value: set}}, within...)
	}
	return within
}

// named returns an array as an object.
func named(a bson.A) bson.D {
	d := bson.D{}
	for i, v := range a {
		d = append(d, bson.E{Key: strconv.Itoa(i), Value: v})
	}
	return d
}

// flat returns a diff of an array, with u0 and s1 instead of objects of them.
func flat(d bson.D) bson.D {
	out := bson.D{{Key: "a", Value: true}}
	for _, e := range d {
		if e.Key != "u" {
			out = append(out, e)
			continue
		}
		for _, member := range e.Value.(bson.D) {
			out = append(out, bson.E{Key: "u" + member.Key, Value: member.Value})
		}
	}
	return out
}

// checkChange checks that the $set of an update turns before into after, and names no equal value.
func checkChange(t *testing.T, before, after bson.D) {
	t.Helper()
	var e encoder
	dst := []byte{0, 0, 0, 0}
	for _, field := range after {
		var known value
		if old := at(before, field.Key); old != nil {
			known = valueOf(t, old)
		}
		dst = e.appendBoundChange(dst, "", field.Key, known, valueOf(t, field.Value))
	}
	changes := decode(t, rawbson.EndDocument(dst, 0))
	for _, change := range changes {
		if old := at(before, change.Key); old != nil && equal(t, old, change.Value) {
			t.Errorf("%s is set to what it is", change.Key)
		}
	}
	if got := update(t, before, bson.D{{Key: "$set", Value: changes}}, false); !equal(t, got, after) {
		t.Errorf("setting %s makes %s, want %s", text(changes), text(got), text(after))
	}
}

func valueOf(t testing.TB, v any) value {
	t.Helper()
	e, _, ok := rawbson.Read(rawbson.Content(encode(t, bson.D{{Key: "v", Value: v}})))
	if !ok {
		t.Fatalf("%v is no BSON value", v)
	}
	return value{e.Kind, e.Value}
}
