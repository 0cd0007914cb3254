package reader

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// prepared is a port that answers every query with the same buckets, without copies.
type prepared struct {
	port
	buckets, reversed []bson.Raw
}

func (prepared) definition(context.Context) (bson.Raw, error) {
	return definitionOf(testOptions), nil
}

func (p prepared) find(_ context.Context, r request) (documents, error) {
	if r.sort[0].Value == -1 {
		return &preparedAnswer{rest: p.reversed}, nil
	}
	return &preparedAnswer{rest: p.buckets}, nil
}

type preparedAnswer struct{ rest, current []bson.Raw }

func (a *preparedAnswer) Next(context.Context) bool {
	if len(a.rest) == 0 {
		return false
	}
	a.current, a.rest = a.rest[:1], a.rest[1:]
	return true
}

func (a *preparedAnswer) Document() bson.Raw        { return a.current[0] }
func (*preparedAnswer) Err() error                  { return nil }
func (*preparedAnswer) Close(context.Context) error { return nil }

// fiveFields returns buckets with a thousand measurements of five numbers each, of several parallel partitions.
func fiveFields(buckets, partitions int, late bool) (stored []bson.Raw) {
	for i := range buckets {
		var facts []fact
		for j := range 1000 {
			f := fact{
				meta:   valueOf(bson.D{{Key: "sensor", Value: "s-17"}}),
				time:   int64(i/partitions)*3_600_000 + int64(j)*3_600,
				source: timeseries.Source{Topic: "events", TopicID: [16]byte{1}, Partition: int32(i % partitions)},
				at:     timeseries.Position{Offset: int64(i*1000 + j)},
			}
			if late && j > 500 && j%100 == 99 {
				f.time -= 1_800_000
			}
			for k := range 5 {
				f.fields = append(f.fields, bson.E{Key: fmt.Sprintf("field%d", k), Value: float64(i + j + k)})
			}
			facts = append(facts, f)
		}
		stored = append(stored, bucketOf(testOptions, facts...))
	}
	return stored
}

func reversed(buckets []bson.Raw) []bson.Raw {
	buckets = slices.Clone(buckets)
	slices.Reverse(buckets)
	return buckets
}

// BenchmarkFind measures the cost of a measurement of five fields, from buckets in memory to the caller.
func BenchmarkFind(b *testing.B) {
	for _, c := range []struct {
		name   string
		stored []bson.Raw
		query  Query
	}{
		{"in order", fiveFields(100, 1, false), Query{}},
		{"some late", fiveFields(100, 1, true), Query{}},
		{"two partitions", fiveFields(100, 2, false), Query{}},
		{"ten partitions", fiveFields(100, 10, false), Query{}},
		{"newest first", fiveFields(100, 1, false), Query{Newest: true}},
		{"dotted field", fiveFields(100, 1, false), Query{Fields: []string{"field1", "wind.speed"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.query.Meta = bson.D{{Key: "m", Value: bson.D{{Key: "sensor", Value: "s-17"}}}}
			s := newSeries("s", "db.s.buckets", testOptions, prepared{buckets: c.stored, reversed: reversed(c.stored)})
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				for m, err := range s.Find(b.Context(), c.query) {
					if err != nil {
						b.Fatal(err)
					}
					if len(m.Fields) > 0 {
						n++
					}
				}
			}
			if n != b.N*1000*len(c.stored) {
				b.Fatalf("%d measurements, want %d", n, b.N*1000*len(c.stored))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/measurement")
		})
	}
}
