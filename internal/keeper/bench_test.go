package keeper

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// BenchmarkMeasurement measures the cost of one measurement of five fields in a pass, from the stored bucket to the rows of
// minutes and hours.
func BenchmarkMeasurement(b *testing.B) {
	const perBucket, buckets = 40, 18 // an hour of a series at 0.2 Hz
	w := &world{bits: map[int64]int{}}
	begin := rollup.FloorTo(1_772_000_000_000, hourMs)
	var documents []bson.Raw
	for i := range buckets {
		var records []*entry
		for j := range perBucket {
			n := i*perBucket + j
			records = append(records, &entry{offset: int64(n), time: begin + int64(n)*5000, series: "a", bit: n % 60})
		}
		d := w.bucket("a", &part{}, records, nil)
		data := d[len(d)-1].Value.(bson.D)
		for f := range 4 {
			column := bson.D{}
			for j := range perBucket {
				column = append(column, bson.E{Key: fmt.Sprint(j), Value: float64(j) + float64(f)/7})
			}
			data = append(data, bson.E{Key: fmt.Sprintf("field%d", f), Value: column})
		}
		d[len(d)-1].Value = data
		documents = append(documents, encoded(d))
	}
	minute, _ := rollup.LevelOf(rollup.Minute)
	hour, _ := rollup.LevelOf(rollup.Hour)
	key := timeseries.Key(encoded(bson.D{{Key: "m", Value: "a"}}).Lookup("m"))
	defined := rollup.Definition{Levels: []rollup.DefinedLevel{{Name: rollup.Minute}, {Name: rollup.Hour}}}
	b.ReportAllocs()
	s := newSource(baseOptions, &run{begin, begin + hourMs, []string{key}})
	n := 0
	for b.Loop() {
		if n++; n%(perBucket*buckets) != 1 {
			continue // one iteration is one measurement
		}
		s.forget([]string{key})
		for _, d := range documents {
			if err := s.add(d); err != nil {
				b.Fatal(err)
			}
		}
		s.order(s.series[key])
		computed := rows(s.series[key].rows, defined)
		for _, level := range []rollup.Level{minute, hour} {
			from, _ := level.Period(begin)
			d := rollup.Document{Meta: metaOf(key), From: from, Rows: computed[level.Name]}
			if len(d.Encode(level.Options(baseOptions))) == 0 {
				b.Fatal("nothing was encoded")
			}
		}
	}
}
