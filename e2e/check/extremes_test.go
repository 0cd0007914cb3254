package check

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestExtremes checks examples from the MongoDB manual for minima and maxima.
func TestExtremes(t *testing.T) {
	a := func(elements ...any) bson.A { return bson.A(elements) }
	o := func(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }
	for _, c := range []struct {
		name             string
		values           []any
		smallest, larger any
	}{
		{"the first of equals stays", []any{int32(1), 1.0}, int32(1), int32(1)},
		{"numbers across types", []any{int32(1), 0.5, int64(1) << 40}, 0.5, int64(1) << 40},
		{"strings by bytes", []any{"b", "a", "é"}, "a", "é"},
		{"false is less", []any{true, false}, false, true},
		{"ragged arrays by position", []any{a(int32(5)), a(int32(1), int32(9)), a()}, a(int32(1), int32(9)), a(int32(5), int32(9))},
		{
			"objects field by field",
			[]any{o("x", int32(1)), o("y", int32(2)), o("x", int32(0))},
			bson.D{{Key: "x", Value: int32(0)}, {Key: "y", Value: int32(2)}},
			bson.D{{Key: "x", Value: int32(1)}, {Key: "y", Value: int32(2)}},
		},
		{"an empty object counts", []any{bson.D{}}, bson.D{}, bson.D{}},
		{"other kinds by rank", []any{int32(1), "a", nil}, nil, "a"},
	} {
		for sign, want := range map[int]any{-1: c.smallest, 1: c.larger} {
			x := extremes{sign: sign}
			for _, v := range c.values {
				x.add("f", v)
			}
			if got := x.values[0].Value; !same(got, want) {
				t.Errorf("%s, sign %d: %v, want %v", c.name, sign, got, want)
			}
		}
	}
}
