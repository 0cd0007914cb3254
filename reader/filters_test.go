package reader

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/bucketer"
	"waterwheel/internal/collection"
	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
)

// filterWorld makes random metas and filters.
type filterWorld struct {
	random *rand.Rand
	metas  []bson.RawValue
	pool   []bson.E // the values in the metas, with their paths
}

// scalarsOf are values of many types. Several are equal to others in MongoDB.
func scalarsOf(t *testing.T) bson.A {
	t.Helper()
	decimal, err := bson.ParseDecimal128("5.0")
	if err != nil {
		t.Fatal(err)
	}
	return bson.A{
		int32(0), int32(5), int64(5), 5.0, 5.5, 0.0, math.Copysign(0, -1), int64(1) << 53, float64(1 << 53), int64(1)<<53 + 1, float64(1 << 63),
		int64(math.MaxInt64), int64(math.MinInt64), float64(math.MinInt64), math.NaN(), math.Float64frombits(0xfff8 << 48), math.Inf(1), 1e300,
		decimal, "a", "b", "", "5", "A", "\u00e9", "e\u0301", "x\x00y", true, false,
		bson.Null{},
		bson.DateTime(5), bson.DateTime(-1),
		bson.ObjectID{5},
		bson.Binary{Data: []byte("a")},
		bson.Binary{Subtype: 4, Data: make([]byte, 16)},
		bson.Timestamp{T: 1},
		bson.Symbol("a"),
		bson.MinKey{},
	}
}

// value returns a scalar, an object or an array.
func (w *filterWorld) value(scalars bson.A, depth int) any {
	switch n := w.random.IntN(20); {
	case n < 4 && depth > 0:
		return w.object(scalars, depth-1)
	case n == 4 && depth > 0:
		return bson.A{w.value(scalars, depth-1), w.value(scalars, depth-1)}
	}
	return scalars[w.random.IntN(len(scalars))]
}

func (w *filterWorld) object(scalars bson.A, depth int) bson.D {
	d := bson.D{}
	for _, name := range []string{"0", "a", "b", "c"} {
		if w.random.IntN(2) == 0 {
			d = append(d, bson.E{Key: name, Value: w.value(scalars, depth)})
		}
	}
	return d
}

// know adds the value at a path, and the values in it, to the pool.
func (w *filterWorld) know(path string, v bson.RawValue) {
	w.pool = append(w.pool, bson.E{Key: path, Value: v})
	if v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray {
		for name, member := range members(v.Value) {
			w.know(path+"."+name, member)
		}
	}
}

// filter returns a filter of one or two conditions.
func (w *filterWorld) filter() (d bson.D) {
	for range 1 + w.random.IntN(2) {
		one, other := w.pool[w.random.IntN(len(w.pool))], w.pool[w.random.IntN(len(w.pool))].Value
		if w.random.IntN(8) == 0 {
			one.Value = other
		}
		if n, ok := one.Value.(bson.RawValue).AsFloat64OK(); ok && w.random.IntN(3) == 0 && math.Abs(n) < 1e15 {
			one.Value = n
		}
		switch w.random.IntN(5) {
		case 0:
			one.Value = bson.D{{Key: "$in", Value: bson.A{one.Value, other}}}
		case 1:
			one = bson.E{Key: "$or", Value: bson.A{bson.D{one}, bson.D{{Key: one.Key, Value: bson.D{{Key: "$eq", Value: other}}}}}}
		case 2:
			one = bson.E{Key: "$and", Value: bson.A{bson.D{one}}}
		case 3:
			one.Value = bson.D{{Key: "$eq", Value: one.Value}}
		}
		d = append(d, one)
	}
	return d
}

// TestSegmentsAreFilteredAsPlainDocuments compares random filters on metas in segments of several partitions with the server's
// answer for plain documents. It needs a server that compares bits, so that Bloom filters are in use.
func TestSegmentsAreFilteredAsPlainDocuments(t *testing.T) {
	db := connected(t)
	plainest := []bson.Raw{segmentOf(testOptions, fact{meta: valueOf("a"), fields: bson.D{}})}
	if s := setUp(t, db, "trial", testOptions, plainest); !s.ordersMetas(t.Context()) || !s.comparesBits(t.Context()) {
		t.Skip("this server does not compare bits")
	}
	scalars, found, skipping := scalarsOf(t), 0, 0
	for round := range 4 {
		w := &filterWorld{random: rand.New(rand.NewPCG(uint64(round), 77))}
		for range 80 {
			meta := timeseries.NormalMeta(valueOf(w.value(scalars, 2)))
			if w.random.IntN(4) > 0 {
				meta = timeseries.NormalMeta(valueOf(w.object(scalars, 1)))
			}
			if meta.Type != bson.TypeArray { // such series are never in segments
				w.metas = append(w.metas, meta)
				w.know(testOptions.MetaField, meta)
			}
		}
		name := fmt.Sprint("events", round)
		segments, plain := w.stored(t)
		s := setUpWith(t, db, name, testOptions, segments, collection.Settings{Segments: collection.SegmentsOn})
		if _, err := db.Collection(name+"_plain").InsertMany(t.Context(), plain); err != nil {
			t.Fatal(err)
		}
		for range 150 {
			filter := w.filter()
			var want, got []int32
			answer, err := db.Collection(name+"_plain").Find(t.Context(), filter, options.Find().SetSort(bson.D{{Key: "x", Value: 1}}))
			for err == nil && answer.Next(t.Context()) {
				want = append(want, answer.Current.Lookup("x").Int32())
			}
			if err != nil {
				continue // a filter that the server refuses
			}
			q := Query{Meta: filter}
			for m, err := range s.Find(t.Context(), q) {
				if err != nil {
					t.Fatalf("%v: %v", filter, err)
				}
				got = append(got, m.Fields.Lookup("x").Int32())
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("round %d: %v finds %v, and %v in plain documents", round, encode(filter), got, want)
			}
			found += len(got)
			if p, err := s.prepare(t.Context(), q); err != nil {
				t.Fatal(err)
			} else if len(want) > 0 && p.bounds.bits && p.bounds.complete {
				skipping++
			}
		}
	}
	if found < 500 || skipping < 50 {
		t.Errorf("only %d measurements were found, and %d filters used bits", found, skipping)
	}
}

// stored returns segments of eight partitions with measurements of the metas, as the consumer makes them, and the same as plain
// documents.
func (w *filterWorld) stored(t *testing.T) (segments []bson.Raw, plain []any) {
	t.Helper()
	for partition := range int32(8) {
		catalog := bucketer.New(bucketer.Options{
			Collection: testOptions, Limits: timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10}, DenseFrom: 64, SegmentRows: 20,
			Source: timeseries.Source{Topic: "x", TopicID: [16]byte{1}, Partition: partition}, Owner: fmt.Sprint("0000/", partition),
		})
		for i := range int32(40) {
			meta, x := w.metas[w.random.IntN(len(w.metas)/8)*8+int(partition)], partition*1000+i
			m := measurement.Measurement{
				Position: timeseries.Position{Offset: int64(i)}, Time: 1_700_000_000_000 + int64(i), Meta: meta,
				Elements: encode(bson.D{{Key: "x", Value: x}})[4:],
			}
			m.Elements = m.Elements[:len(m.Elements)-1]
			if err := catalog.Insert(&m); err != nil {
				t.Fatal(err)
			}
			plain = append(plain, bson.D{{Key: "x", Value: x}, {Key: testOptions.MetaField, Value: meta}})
		}
		for _, write := range catalog.Prepare(0).Writes {
			segments = append(segments, slices.Clone(write.Document))
		}
	}
	return segments, plain
}
