package bucketer

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestColumnsOfWhatIsAlike cuts flushes of measurements of one layout twice: as they are, and with the layout forgotten.
func TestColumnsOfWhatIsAlike(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := []func() any{
		func() any { return random.NormFloat64() },
		func() any {
			return []float64{0, math.Copysign(0, -1), 1, math.Inf(-1), math.Inf(1), math.NaN()}[random.IntN(6)]
		},
		func() any { return []float64{0, math.Copysign(0, -1), 1}[random.IntN(3)] },
		func() any { return int64(random.IntN(9) - 4) },
		func() any { return random.Int32N(9) - 4 },
		func() any { return random.IntN(2) == 0 },
		func() any { return nil }, // has no bytes, so as the last field it ends where the measurement ends
		func() any { return bson.DateTime(random.IntN(9) - 4) },
		func() any { return fmt.Sprint("state", random.IntN(9)) },
	}
	alike := 0
	for round := range 200 {
		c, each := New(testOptions(t)), New(testOptions(t))
		kinds := make([]func() any, 1+random.IntN(6))
		for i := range kinds {
			kinds[i] = values[random.IntN(len(values))]
		}
		flush := func(first, count, other int) {
			for at := range count {
				var fields []bson.E
				for i, kind := range kinds {
					if at != other || i != len(kinds)/2 {
						fields = append(fields, bson.E{Key: fmt.Sprint("field", i), Value: kind()})
					}
				}
				for _, catalog := range []*Catalog{c, each} {
					mustInsert(t, catalog, simple(int64(first+at), 0, fields...))
				}
			}
			b := c.dirty[len(c.dirty)-1]
			if c.encoder.gatherAlike(b) {
				alike++
				if other >= 0 && len(kinds) > 1 {
					t.Fatalf("round %d: a measurement without a field is like the others", round)
				}
			}
			for _, b := range each.dirty {
				b.shape.layout = layout{}
			}
			made, want := c.Prepare(0), each.Prepare(0)
			for i, w := range made.Writes {
				if !bytes.Equal(w.Document, want.Writes[i].Document) || !bytes.Equal(w.Offsets, want.Writes[i].Offsets) {
					t.Fatalf("round %d: columns differ\n%v\n%v", round, w.Document, want.Writes[i].Document)
				}
			}
			for catalog, f := range map[*Catalog]*Flush{c: made, each: want} {
				catalog.Finish(f, make([]Outcome, len(f.Writes)), 0)
				catalog.Clear(nil)
			}
		}
		flush(0, 2*layoutMisses+random.IntN(200), -1)
		flush(1000, 2+random.IntN(30), -1)
		flush(2000, 20, random.IntN(20))
	}
	if alike < 300 {
		t.Errorf("%d flushes were of one layout: this proves little", alike)
	}
}
