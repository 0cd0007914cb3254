package bucketer

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
)

// BenchmarkSegments measures the cost of a measurement on its way through a segment. This is its insertion and the cut of
// segments, and later the compaction into buckets. There are ten measurements of each of a thousand series.
func BenchmarkSegments(b *testing.B) {
	const series, each = 1000, 10
	o := testOptions(b)
	o.DenseFrom = 64
	var documents []bson.Raw
	made := make([]*measurement.Measurement, 0, series*each)
	for n := range each {
		for s := range series {
			made = append(made, benchMeasurement(b, s, n, int64(n*series+s)))
		}
	}
	moveToSegments := func(keep bool) {
		c := New(o)
		for n := range each {
			for _, m := range made[n*series:][:series] {
				if err := c.Insert(m); err != nil {
					b.Fatal(err)
				}
			}
			f := c.Prepare(0)
			if keep {
				for _, w := range f.Writes {
					documents = append(documents, append(bson.Raw{}, w.Document...))
				}
			}
			c.Finish(f, make([]Outcome, len(f.Writes)), 0)
			c.Release(f)
		}
	}
	moveToSegments(true)
	b.Run("stage", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			moveToSegments(false)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series*each), "ns/measurement")
	})
	b.Run("compact", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			f, err := Compact(o, CompactionMark{ID: [16]byte{1}, VisibleFrom: 1}, documents)
			if err != nil || f.Measurements != series*each {
				b.Fatal(err, f.Measurements)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series*each), "ns/measurement")
	})
}

func benchMeasurement(b *testing.B, series, n int, offset int64) *measurement.Measurement {
	b.Helper()
	meta, value, err := bson.MarshalValue(fmt.Sprintf("sensor-%06d", series))
	if err != nil {
		b.Fatal(err)
	}
	return (reading{
		position: timeseries.Position{Offset: offset}, time: 1_700_000_000_000 + int64(n)*5000, series: string(append([]byte{byte(meta)}, value...)),
		fields: bson.D{{Key: "a", Value: 1.5 + float64(n)}, {Key: "b", Value: int32(n)}, {Key: "c", Value: 20.25}, {Key: "d", Value: int32(series)}, {Key: "e", Value: "on"}},
	}).measurement(b)
}
