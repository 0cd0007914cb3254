package bucketer

import (
	"fmt"
	"runtime"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
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
