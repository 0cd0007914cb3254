package check

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func hashOfInt(n int) uint64 { return hashOf(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

// TestDistinctValuesAreCountedInBoundedMemory checks that few values are counted exactly, and many approximately.
func TestDistinctValuesAreCountedInBoundedMemory(t *testing.T) {
	for _, test := range []struct {
		events, values int
		returning      float64
	}{{100, 10, 1}, {500, 500, 0}, {100_000, 50_000, 1}, {150_000, 100_000, 2.0 / 3}, {100_000, 100_000, 0}} {
		d := newDistinct(keptValues)
		for i := range test.events {
			d.add(hashOfInt(i%test.values), uint64(i%test.values%7))
		}
		exact := test.values <= keptValues
		if got := d.values(); exact && got != test.values || math.Abs(float64(got-test.values)) > 0.2*float64(test.values) {
			t.Errorf("%+v: %d values", test, got)
		}
		if got := d.returning(); math.Abs(got-test.returning) > 0.1 {
			t.Errorf("%+v: %.2f come back", test, got)
		}
		if mixed, _ := d.mixing(); mixed != 0 {
			t.Errorf("%+v: each value comes with one thing, and %.2f with several", test, mixed)
		}
		if len(d.kept) > keptValues {
			t.Errorf("%+v: %d are kept", test, len(d.kept))
		}
	}
}

// TestValuesThatComeWithSeveralThingsAreSeen covers a device with several keys.
func TestValuesThatComeWithSeveralThingsAreSeen(t *testing.T) {
	d := newDistinct(keptValues)
	for i := range 40 {
		with := uint64(1)
		if i%4 == 0 {
			with = uint64(i)
		}
		d.add(hashOfInt(i%4), with)
	}
	d.add(hashOfInt(99), 5) // a value that occurs once says nothing
	if mixed, tested := d.mixing(); mixed != 0.25 || !tested {
		t.Errorf("%v of the values come with several things (%v)", mixed, tested)
	}
}

func TestMostVariedFieldsAreNamed(t *testing.T) {
	var metas []bson.RawValue
	for i := range 100 {
		raw, err := bson.Marshal(bson.D{
			{Key: "site", Value: "north"},
			{Key: "host", Value: bson.D{{Key: "name", Value: fmt.Sprint("h", i%7)}}},
			{Key: "session", Value: i},
			{Key: "rack", Value: i % 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		metas = append(metas, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw})
	}
	for want, metas := range map[string][]bson.RawValue{
		"session 100, host.name 7, rack 3 (of 100 series)": metas,
		"meta itself 2 (of 3 series)":                      {textMeta("a"), textMeta("b"), textMeta("a")},
		"nothing":                                          nil,
	} {
		if got := MostVaried(metas); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func textMeta(s string) bson.RawValue {
	kind, value, _ := bson.MarshalValue(s) // a string can always be encoded
	return bson.RawValue{Type: kind, Value: value}
}
