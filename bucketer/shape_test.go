package bucketer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries/rawbson"
)

// TestNewNamesAreCheap sends measurements with ever new names, at the top level or nested, into one bucket. The time for each
// must not depend on the number of names before.
func TestNewNamesAreCheap(t *testing.T) {
	many := make(bson.D, 40)
	for i := range many {
		many[i] = bson.E{Key: fmt.Sprint("many", i), Value: bson.D{{Key: "x", Value: true}}}
	}
	for name, fields := range map[string]func(e bson.E) []bson.E{
		"beside":  func(e bson.E) []bson.E { return []bson.E{e} },
		"within":  func(e bson.E) []bson.E { return []bson.E{{Key: "o", Value: bson.D{e}}} },
		"deep":    func(e bson.E) []bson.E { return []bson.E{{Key: "o", Value: bson.D{{Key: "p", Value: bson.D{e}}}}} },
		"array":   func(e bson.E) []bson.E { return []bson.E{{Key: "a", Value: bson.A{int32(1), bson.D{e}}}} },
		"many":    func(e bson.E) []bson.E { return append(many[:len(many):len(many)], e) },
		"objects": func(e bson.E) []bson.E { return []bson.E{{Key: e.Key, Value: bson.D{e}}} },
	} {
		o := testOptions(t)
		o.Limits.MaxCount, o.Limits.MaxBytes = 1<<20, 1<<30
		c := New(o)
		const measurements, last = 6000, 1000
		var final []*measurement.Measurement
		for i := range measurements {
			m := simple(int64(i), 1, fields(bson.E{Key: fmt.Sprint("field", i), Value: true})...).measurement(t)
			if i >= measurements-last {
				final = append(final, m)
			} else if err := c.Insert(m); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, m := range final {
			if err := c.Insert(m); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if each, limit := (after.TotalAlloc-before.TotalAlloc)/last, uint64(16<<10); each > limit {
			t.Errorf("%s: a measurement with a new name allocates %d bytes, want at most %d", name, each, limit)
		}
		if len(c.buckets) != 1 {
			t.Errorf("%s: %d buckets, want one", name, len(c.buckets))
		}
		for _, b := range c.buckets {
			if want := shapeBytes + b.shape.schema.bytes(); b.shape.bytes != want {
				t.Errorf("%s: %d bytes of the shape are accounted for, it has %d", name, b.shape.bytes, want)
			}
		}
	}
}

// everyKind returns values of all kinds that a layout supports, with or without a string at the end.
func everyKind(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := bson.Marshal(bson.D{
		{Key: "a", Value: 1.5},
		{Key: "flag", Value: true},
		{Key: "n", Value: nil},
		{Key: "text", Value: text},
		{Key: "int", Value: int32(7)},
		{Key: "id", Value: bson.ObjectID{1}},
		{Key: "z", Value: text},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rawbson.Content(raw)
}

// learnt returns a shape that has learnt the layout of elements.
func learnt(t testing.TB, elements []byte) *shape {
	t.Helper()
	known := newShapes()
	s := known.grow(known.empty, elements, known.empty.survey(elements))
	for range layoutMisses {
		s.survey(elements)
	}
	return s
}

// TestLayoutSaysWhatASurveyDoes changes each byte of measurements in many ways. The layout must give the same result as a walk
// over the elements.
func TestLayoutSaysWhatASurveyDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"", "on", "a longer text that is not short"} {
		elements := everyKind(t, text)
		s := learnt(t, elements)
		if !s.layout.fits(elements) {
			t.Fatalf("the layout of %d bytes was not learnt", len(elements))
		}
		same := 0
		for at := range elements {
			for range 20 {
				changed := bytes.Clone(elements)
				changed[at] = byte(random.UintN(256))
				if s.layout.fits(changed) {
					same++
				}
				if got, want := s.survey(changed), s.surveyEach(changed); got != want {
					t.Fatalf("byte %d as %#x: the survey is %+v, want %+v", at, changed[at], got, want)
				}
			}
		}
		if same == 0 || same == 20*len(elements) {
			t.Errorf("%d of %d changed measurements have the same layout", same, 20*len(elements))
		}
	}
}

// TestLayoutIsGivenUp checks that a shape learns another layout when the first one no longer occurs, and that it learns none of
// objects.
func TestLayoutIsGivenUp(t *testing.T) {
	first, second := everyKind(t, "on"), everyKind(t, "off!")
	s := learnt(t, first)
	for range 2 * layoutMisses {
		s.survey(second)
	}
	if s.layout.fits(first) || !s.layout.fits(second) {
		t.Error("the layout is not that of the last measurements")
	}
	nested, err := bson.Marshal(bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if s := learnt(t, rawbson.Content(nested)); s.layout.size != 0 {
		t.Error("the layout of an object was learnt")
	}
}

func FuzzLayout(f *testing.F) {
	f.Add(everyKind(f, "on"), everyKind(f, "no"))
	f.Add(everyKind(f, ""), []byte{1, 'a', 0})
	f.Fuzz(func(t *testing.T, elements, other []byte) {
		c := New(testOptions(t))
		if c.validate(elements) != nil {
			return
		}
		s := learnt(t, elements)
		for _, one := range [][]byte{elements, other} {
			if got, want := s.survey(one), s.surveyEach(one); got != want {
				t.Errorf("the survey is %+v, want %+v", got, want)
			}
		}
	})
}
