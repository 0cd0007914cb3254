package check

import (
	"bytes"
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// normalised sorts the fields of objects by name at every depth, because the identity of a series does not depend on their order.
func normalised(v any) any {
	switch v := v.(type) {
	case bson.D:
		sorted := make(bson.D, len(v))
		for i, e := range v {
			sorted[i] = bson.E{Key: e.Key, Value: normalised(e.Value)}
		}
		slices.SortFunc(sorted, func(a, b bson.E) int { return cmp.Compare(a.Key, b.Key) })
		return sorted
	case bson.A:
		elements := make(bson.A, len(v))
		for i, e := range v {
			elements[i] = normalised(e)
		}
		return elements
	default:
		return v
	}
}

// EditedField is the field that edits of metas add to metas that are objects. No event has it.
const EditedField = "edited"

// unedited returns a stored meta as it was before edits.
func unedited(meta bson.RawValue) bson.RawValue {
	document, ok := meta.DocumentOK()
	if _, err := document.LookupErr(EditedField); !ok || err != nil {
		return meta
	}
	var fields bson.D
	if err := bson.Unmarshal(document, &fields); err != nil {
		return meta
	}
	fields = slices.DeleteFunc(fields, func(e bson.E) bool { return e.Key == EditedField })
	before, err := bson.Marshal(fields)
	if err != nil {
		return meta
	}
	return bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: before}
}

// sameValue reports whether a stored value equals the expected one, in type and bytes.
func sameValue(stored bson.RawValue, want any) bool {
	if want == nil { // MarshalValue does not accept nil
		return stored.Type == bson.TypeNull
	}
	kind, data, err := bson.MarshalValue(want)
	return err == nil && stored.Type == kind && bytes.Equal(stored.Value, data)
}

// same reports whether two decoded values are equal in type and value. The order of an object's fields does not matter.
func same(a, b any) bool {
	switch a := a.(type) {
	case bson.D:
		b, ok := b.(bson.D)
		if !ok || len(a) != len(b) {
			return false
		}
		for _, e := range a {
			at := slices.IndexFunc(b, func(f bson.E) bool { return f.Key == e.Key })
			if at < 0 || !same(e.Value, b[at].Value) {
				return false
			}
		}
		return true
	case bson.A:
		b, ok := b.(bson.A)
		return ok && slices.EqualFunc(a, b, same)
	default:
		return a == b
	}
}
