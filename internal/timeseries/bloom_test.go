package timeseries

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// bloomValue encodes any value.
func bloomValue(t testing.TB, v any) bson.RawValue {
	t.Helper()
	kind, value, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: kind, Value: value}
}

// bloomOf returns the field of control.segment with a filter of some metas, as an object.
func bloomOf(t testing.TB, metas ...any) bson.Raw {
	t.Helper()
	var b Bloom
	for _, meta := range metas {
		b.Add(nil, bloomValue(t, meta))
	}
	return rawbson.EndDocument(b.Append(make([]byte, 4)), 0)
}

// lacks reports whether a filter lacks a value at a path.
func lacks(t testing.TB, filter bson.Raw, path []string, v any) bool {
	t.Helper()
	var b Bloom
	b.Add(path, bloomValue(t, v))
	return b.Lacks(filter) != ""
}

// TestBloomHasEqualValues checks that a filter of a value has every value that MongoDB considers equal, and no other.
func TestBloomHasEqualValues(t *testing.T) {
	nan := math.Float64frombits(0xfff0000000000007)
	object := func(v any) bson.D { return bson.D{{Key: "a", Value: "x"}, {Key: "b", Value: v}} }
	for _, same := range [][]any{
		{int32(5), int64(5), 5.0},
		{0.0, math.Copysign(0, -1), int32(0)},
		{int64(math.MinInt64), float64(math.MinInt64)},
		{int64(1) << 53, float64(1 << 53)},
		{int64(1)<<53 + 1},
		{float64(1 << 63)},
		{int64(math.MaxInt64)},
		{5.5},
		{math.Inf(1)},
		{math.Inf(-1)},
		{math.NaN(), nan},
		{"5"},
		{true},
		{false},
		{bson.DateTime(5)},
		{bson.ObjectID{5}},
		{bson.Null{}},
		{""},
		{bson.Binary{Subtype: 4, Data: []byte("5")}},
		{bson.Binary{Data: []byte("5")}},
		{bson.Timestamp{T: 5}},
		{object(1), object(1.0)},
		{object("1")},
		{object(bson.D{{Key: "c", Value: 2}}), object(bson.D{{Key: "c", Value: 2.0}})},
		{bson.D{{Key: "b", Value: 1}, {Key: "a", Value: "x"}}},
	} {
		for _, v := range same {
			filter := bloomOf(t, v)
			for _, other := range same {
				if lacks(t, filter, nil, other) {
					t.Errorf("a filter of %v lacks %v", v, other)
				}
			}
			for _, other := range []any{int32(6), "6", object(2), bson.D{{Key: "a", Value: 5}}, bson.Null{}, int64(1)<<53 + 1, float64(1 << 63)} {
				if equal := Compare(bloomValue(t, v), bloomValue(t, other)) == 0; equal == lacks(t, filter, nil, other) {
					t.Errorf("a filter of %v has %v: %t", v, other, !equal)
				}
			}
		}
	}
}

// TestBloomHasValuesAtTheirPaths checks that a filter has the values in its metas at their paths, and the whole metas.
func TestBloomHasValuesAtTheirPaths(t *testing.T) {
	one := bson.D{{Key: "site", Value: "north"}, {Key: "rack", Value: bson.D{{Key: "row", Value: 3}, {Key: "slot", Value: "a"}}}}
	two := bson.D{{Key: "site", Value: "south"}, {Key: "rack", Value: bson.D{{Key: "row", Value: 4}, {Key: "slot", Value: "a"}}}}
	filter := bloomOf(t, one, two, "plain")
	for _, c := range []struct {
		path  []string
		v     any
		lacks bool
	}{
		{nil, one, false},
		{nil, "plain", false},
		{[]string{"site"}, "north", false},
		{[]string{"rack", "row"}, 4.0, false},
		{[]string{"rack"}, bson.D{{Key: "row", Value: 3}, {Key: "slot", Value: "a"}}, false},
		{nil, bson.D{{Key: "site", Value: "north"}, {Key: "rack", Value: two[1].Value}}, true}, // Each value is there, but not this meta.
		{nil, bson.D{one[1], one[0]}, true},
		{nil, "north", true},
		{[]string{"site"}, "plain", true},
		{[]string{"rack"}, "north", true},
		{[]string{"row"}, 3, true},
		{[]string{"rack", "row"}, 5, true},
		{[]string{"rack.row"}, 3, true},
	} {
		if lacks(t, filter, c.path, c.v) != c.lacks {
			t.Errorf("%v at %v: lacks %t, want %t", c.v, c.path, !c.lacks, c.lacks)
		}
	}
}

// TestBloomIsLargeEnough checks the size of filters, and that few values which are not there seem to be there.
func TestBloomIsLargeEnough(t *testing.T) {
	for _, c := range []struct {
		metas, bytes, most int // most of 10,000 values that are not there
	}{{1, 32, 1}, {32, 32, 300}, {33, 128, 10}, {128, 128, 300}, {129, 512, 10}, {250, 512, 50}, {512, 512, 300}, {1000, 512, 2500}} {
		var metas []any
		for i := range c.metas {
			metas = append(metas, bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%07d", i)}})
		}
		filter := bloomOf(t, metas...)
		if elements, err := filter.Elements(); err != nil || len(elements) != 1 || elements[0].Key() != fmt.Sprint("bloom", 8*c.bytes) {
			t.Fatalf("%d metas: %v, %v", c.metas, elements, err)
		} else if _, bits, ok := elements[0].Value().BinaryOK(); !ok || len(bits) != c.bytes {
			t.Errorf("%d metas: %d bytes, want %d", c.metas, len(bits), c.bytes)
		}
		has := 0
		for i := range 10_000 {
			if !lacks(t, filter, []string{"sensor"}, fmt.Sprintf("s-%07d", 1_000_000+i)) {
				has++
			}
		}
		if has > c.most {
			t.Errorf("%d metas: %d of 10,000 other values seem to be there", c.metas, has)
		}
		for _, meta := range metas {
			if lacks(t, filter, nil, meta) {
				t.Fatalf("a filter of %d metas lacks %v", c.metas, meta)
			}
		}
	}
}

// TestBloomOfValuesThatItDoesNotKnow checks that a segment with such a value has no filter, and a query of one no condition.
func TestBloomOfValuesThatItDoesNotKnow(t *testing.T) {
	decimal, err := bson.ParseDecimal128("5")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{
		decimal,
		bson.A{"a"},
		bson.JavaScript("a"),
		bson.Regex{Pattern: "a"},
		bson.Symbol("a"),
		bson.MinKey{},
		bson.Undefined{},
		bson.D{{Key: "a", Value: bson.A{1}}},
		bson.D{{Key: "a", Value: 1}, {Key: "b", Value: bson.D{{Key: "c", Value: decimal}}}},
	} {
		if filter := bloomOf(t, "known", v); len(filter) != 5 {
			t.Errorf("%v: %v", v, filter)
		}
		var b Bloom
		b.Add([]string{"a"}, bloomValue(t, v))
		if got := b.Conditions(); got != nil {
			t.Errorf("%v: %v", v, got)
		}
	}
	if filter := bloomOf(t); len(filter) == 5 {
		t.Error("a segment without any meta has no filter")
	}
	if lacks(t, bson.Raw{5, 0, 0, 0, 0}, nil, "x") {
		t.Error("something is lacking where there is no filter")
	}
}

// TestBloomOfAnotherFormLacks checks that filters are noticed which MongoDB compares, although no segment is written so.
func TestBloomOfAnotherFormLacks(t *testing.T) {
	full := bson.Binary{Data: bytes.Repeat([]byte{0xff}, 32)}
	var b Bloom
	b.Add(nil, bloomValue(t, "x"))
	for _, c := range []struct {
		name  string
		value any
		lacks bool
	}{
		{"bloom256", full, false},
		{"owner", full, false},
		{"bloom256", bson.Binary{Subtype: 2, Data: full.Data}, true},
		{"bloom256", bson.Binary{Data: full.Data[:31]}, true},
		{"bloom256", bson.A{full}, true},
		{"bloom256", -1, true},
		{"bloom1024", full, true},
		{"bloom512", full, true},
	} {
		segment := bson.Raw(bloomValue(t, bson.D{{Key: c.name, Value: c.value}}).Value)
		if path := b.Lacks(segment); (path != "") != c.lacks || c.lacks && path != "control.segment."+c.name {
			t.Errorf("%s is %v: %q", c.name, c.value, path)
		}
	}
}

// TestBloomConditions checks the conditions of a query. There is one for each size of filter.
func TestBloomConditions(t *testing.T) {
	var b Bloom
	b.Add([]string{"sensor"}, bloomValue(t, "s-0117"))
	want := `{"control.segment.bloom256":{"$not":{"$bitsAnyClear":[93,164,191,252]}},` +
		`"control.segment.bloom1024":{"$not":{"$bitsAnyClear":[605,932,959,1020]}},` +
		`"control.segment.bloom4096":{"$not":{"$bitsAnyClear":[1956,2044,2653,4031]}}}`
	if got, err := bson.MarshalExtJSON(b.Conditions(), false, false); err != nil || string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	filter := bloomOf(t, bson.D{{Key: "sensor", Value: "s-0117"}})
	_, bytes := filter.Lookup("bloom256").Binary()
	var bits []int32
	for i := range int32(256) {
		if bytes[i/8]>>(i%8)&1 != 0 {
			bits = append(bits, i)
		}
	}
	if !slices.Equal(bits, b.bitsOf(256)) {
		t.Errorf("the filter has the bits %v", bits)
	}
}

// FuzzBloom checks that values which MongoDB considers equal have the same entries.
func FuzzBloom(f *testing.F) {
	for _, v := range []any{5, 5.0, "x", bson.D{{Key: "a", Value: 1}, {Key: "b", Value: bson.D{{Key: "c", Value: nil}}}}, bson.A{1}} {
		value := bloomValue(f, v)
		f.Add(byte(value.Type), value.Value, byte(bson.TypeDouble), bloomValue(f, 5.0).Value)
	}
	f.Fuzz(func(t *testing.T, kind byte, value []byte, otherKind byte, otherValue []byte) {
		a, b := bson.RawValue{Type: bson.Type(kind), Value: value}, bson.RawValue{Type: bson.Type(otherKind), Value: otherValue}
		if a.Validate() != nil || b.Validate() != nil || Compare(a, b) != 0 {
			return
		}
		var of, other Bloom
		of.Add([]string{"p"}, a)
		other.Add([]string{"p"}, b)
		if filter := rawbson.EndDocument(of.Append(make([]byte, 4)), 0); len(filter) > 5 && !other.unknown && other.Lacks(filter) != "" {
			t.Errorf("%v and %v are equal, but have other entries", a, b)
		}
	})
}
