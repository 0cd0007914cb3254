package rollup

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// model is a naive total. It keeps all numbers in order.
type model struct {
	numbers []bson.RawValue
}

func (m *model) check(t *testing.T, what string, got *Total) {
	t.Helper()
	if got == nil {
		got = &Total{}
	}
	if got.N != int64(len(m.numbers)) {
		t.Fatalf("%s: %d numbers, want %d", what, got.N, len(m.numbers))
	}
	if len(m.numbers) == 0 {
		return
	}
	least := slices.MinFunc(m.numbers, timeseries.Compare)
	most := slices.MaxFunc(m.numbers, timeseries.Compare)
	first, last := m.numbers[0], m.numbers[len(m.numbers)-1]
	for name, pair := range map[string][2]bson.RawValue{
		"min": {got.Min.Value(), least}, "max": {got.Max.Value(), most}, "first": {got.First.Value(), first}, "last": {got.Last.Value(), last},
	} {
		if !pair[0].Equal(pair[1]) {
			t.Fatalf("%s: %s is %v, want %v", what, name, pair[0], pair[1])
		}
	}
	exact, magnitude, isDouble := new(big.Float).SetPrec(4000), 0.0, false
	for _, v := range m.numbers {
		if v.Type == bson.TypeDecimal128 {
			if !got.Sum().IsZero() {
				t.Fatalf("%s: there is a sum", what)
			}
			return
		}
		f, ok := v.DoubleOK()
		isDouble = isDouble || ok
		if !ok {
			i, _ := v.AsInt64OK()
			exact.Add(exact, new(big.Float).SetInt64(i))
			magnitude += math.Abs(float64(i))
			continue
		}
		exact.Add(exact, new(big.Float).SetFloat64(f))
		magnitude += math.Abs(f)
	}
	if i, accuracy := exact.Int64(); !isDouble && accuracy == big.Exact && got.Sum().Value().Type == bson.TypeInt64 {
		if have := got.Sum().Value().Int64(); have != i {
			t.Fatalf("%s: the sum is %d, want %d", what, have, i)
		}
		return
	}
	want, _ := exact.Float64()
	have, ok := got.Sum().float()
	if !ok || math.Abs(have-want) > 1e-15*magnitude {
		t.Fatalf("%s: the sum is %v, want %v", what, have, want)
	}
}

// randomNumber returns a number that is mostly small, and sometimes at the edge of its type.
func randomNumber(rng *rand.Rand) any {
	switch rng.IntN(12) {
	case 0:
		return int64(math.MaxInt64) - int64(rng.IntN(3))
	case 1:
		return int64(math.MinInt64) + int64(rng.IntN(3))
	case 2:
		return rng.NormFloat64() * 1e17
	case 3, 4, 5:
		return rng.NormFloat64()
	case 6:
		return int64(rng.IntN(1000))
	default:
		return int32(rng.IntN(10) - 5)
	}
}

// TestModel compares rows with a list of all numbers. It also compares rows that are folded
// and merged of parts, which are cut at random places.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	rules := &Rules{}
	for range 3000 {
		models := map[string]*model{"a": {}, "o.b": {}, "o.c": {}}
		row, folded, merged, part := rules.NewRow(0), rules.NewRow(0), rules.NewRow(0), rules.NewRow(0)
		cut := func() {
			folded.Fold(part.Document())
			merged.Merge(part)
			part.Reset(0)
		}
		whole, decimals := rng.IntN(4) == 0, rng.IntN(10) == 0
		n := rng.IntN(40)
		for range n {
			value := func(path string) any {
				v := randomNumber(rng)
				if _, isDouble := v.(float64); isDouble && whole {
					v = int32(1)
				}
				switch rng.IntN(10) {
				case 0:
					return math.NaN()
				case 1:
					return "text"
				case 2:
					if decimals {
						v, _ = bson.ParseDecimal128("2.5")
					}
				}
				kind, data, err := bson.MarshalValue(v)
				if err != nil {
					t.Fatal(err)
				}
				models[path].numbers = append(models[path].numbers, bson.RawValue{Type: kind, Value: data})
				return v
			}
			fields := bson.D{{Key: "a", Value: value("a")}}
			if rng.IntN(2) == 0 {
				fields = append(fields, bson.E{Key: "o", Value: bson.D{{Key: "c", Value: value("o.c")}, {Key: "b", Value: value("o.b")}}})
			}
			raw, err := bson.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			row.Add(raw)
			part.Add(raw)
			clear(raw) // the row must keep no part of it
			if rng.IntN(5) == 0 {
				cut()
			}
		}
		cut()
		if row.Count != int64(n) || folded.Count != int64(n) || merged.Count != int64(n) {
			t.Fatalf("counts of %d, %d and %d, want %d", row.Count, folded.Count, merged.Count, n)
		}
		for path, m := range models {
			m.check(t, path, row.total(path))
			m.check(t, path+" folded", folded.total(path))
			m.check(t, path+" merged", merged.total(path))
		}
	}
}
