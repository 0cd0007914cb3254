package bucketer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// equal reports whether two values have the same encoded form.
func equal(t testing.TB, a, b any) bool {
	switch v := a.(type) {
	case bson.D:
		w, ok := b.(bson.D)
		return ok && slices.EqualFunc(v, w, func(x, y bson.E) bool { return x.Key == y.Key && equal(t, x.Value, y.Value) })
	case bson.A:
		w, ok := b.(bson.A)
		return ok && slices.EqualFunc(v, w, func(x, y any) bool { return equal(t, x, y) })
	case float64:
		if w, ok := b.(float64); ok {
			return math.Float64bits(v) == math.Float64bits(w)
		}
	case int32, int64, bson.DateTime, bson.Decimal128, bool, string, bson.ObjectID:
		if a == b {
			return true
		}
	}
	return string(encode(t, bson.D{{Key: "v", Value: a}})) == string(encode(t, bson.D{{Key: "v", Value: b}}))
}

// equalUnordered is equal, but ignores the order of fields within objects.
func equalUnordered(t testing.TB, a, b any) bool {
	switch v := a.(type) {
	case bson.D:
		w, ok := b.(bson.D)
		if !ok || len(v) != len(w) {
			return false
		}
		if !slices.EqualFunc(v, w, func(x, y bson.E) bool { return x.Key == y.Key }) {
			v, w = byName(v), byName(w)
		}
		return slices.EqualFunc(v, w, func(x, y bson.E) bool {
			return x.Key == y.Key && equalUnordered(t, x.Value, y.Value)
		})
	case bson.A:
		w, ok := b.(bson.A)
		return ok && slices.EqualFunc(v, w, func(x, y any) bool { return equalUnordered(t, x, y) })
	}
	return equal(t, a, b)
}

// byName returns an object with its fields sorted by name.
func byName(d bson.D) bson.D {
	return slices.SortedStableFunc(slices.Values(d), func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
}

// sorted sorts the fields of objects by name, at any depth.
func sorted(v any) any {
	switch v := v.(type) {
	case bson.D:
		out := byName(v)
		for i := range out {
			out[i].Value = sorted(out[i].Value)
		}
		return out
	case bson.A:
		out := make(bson.A, 0, len(v))
		for _, e := range v {
			out = append(out, sorted(e))
		}
		return out
	}
	return v
}

// at returns the value at a dotted path, or nil.
func at(d any, path string) any {
	for more := true; more; {
		doc, ok := d.(bson.D)
		if !ok {
			return nil
		}
		var name string
		name, path, more = strings.Cut(path, ".")
		i := slices.IndexFunc(doc, func(e bson.E) bool { return e.Key == name })
		if i < 0 {
			return nil
		}
		d = doc[i].Value
	}
	return d
}

// set returns d with a value at a dotted path. It creates missing objects. The path must not lead into an array.
func set(t testing.TB, d bson.D, path string, value any) bson.D {
	name, rest, more := strings.Cut(path, ".")
	i := slices.IndexFunc(d, func(e bson.E) bool { return e.Key == name })
	if more {
		var within bson.D
		if i >= 0 {
			var ok bool
			if within, ok = d[i].Value.(bson.D); !ok {
				t.Helper()
				t.Fatalf("the path %s leads through a %T", path, d[i].Value)
			}
		}
		value = set(t, within, rest, value)
	}
	if i < 0 {
		return append(slices.Clip(d), bson.E{Key: name, Value: value})
	}
	d = slices.Clone(d)
	d[i].Value = value
	return d
}
