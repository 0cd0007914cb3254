package reader

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// TestTotalsOfAnObjectAreThoseOfMeasurements checks that rows are taken for an object only if they have all of its fields.
func TestTotalsOfAnObjectAreThoseOfMeasurements(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	mark, at := rollup.NewWatermark([16]byte{}, 60), begin.Add(2*time.Hour)
	mark.At = &at
	for _, wind := range []any{bson.D{{Key: "speed", Value: int32(3)}, {Key: "gust", Value: bson.D{{Key: "max", Value: int32(9)}}}}, int32(5)} {
		var all []fact
		for i := range 60 {
			all = append(all, fact{
				meta: stringMetas(1)[0], time: begin.Add(time.Duration(i) * time.Minute).UnixMilli(), at: timeseries.Position{Offset: int64(i)},
				fields: bson.D{{Key: "celsius", Value: int32(i)}, {Key: "wind", Value: wind}},
			})
		}
		for _, c := range []struct {
			patterns []string
			rows     bool
		}{
			{nil, true}, {[]string{"wind"}, true}, {[]string{"wind.*"}, true}, {[]string{"w*"}, true}, {[]string{"celsius", "wind.speed"}, false}, {[]string{"*.speed"}, false},
		} {
			s := rolledUp(bucketsOf(rand.New(rand.NewPCG(1, 1)), all), at, all, []rollup.Watermark{mark}, rollup.DefinedLevel{Name: rollup.Hour, Count: "count", Fields: c.patterns})
			q := TotalsQuery{Query: Query{Fields: []string{"wind"}}, Every: Step{Duration: time.Hour}, Aggregations: allAggregations}
			got, err := lines(s.Totals(t.Context(), q))
			rows := s.levels["s_1h"].sent > 0
			q.Exact = true
			want, failed := lines(s.Totals(t.Context(), q))
			if diff := cmp.Diff(want, got); err != nil || failed != nil || diff != "" || rows != c.rows {
				t.Errorf("%v with the patterns %q: %v, %v, rows were read: %v\n%s", wind, c.patterns, err, failed, rows, diff)
			}
		}
	}
}

// TestTotalsCountInOneColumn checks that the name of the count, and what becomes of fields with the names count and n, do not depend on
// the source of the windows.
func TestTotalsCountInOneColumn(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var all []fact
	for i := range 120 {
		all = append(all, fact{
			meta: stringMetas(1)[0], time: begin.Add(time.Duration(i) * time.Minute).UnixMilli(), at: timeseries.Position{Offset: int64(i)},
			fields: bson.D{{Key: "count", Value: int32(i % 60)}, {Key: "n", Value: int32(7)}},
		})
	}
	mark := rollup.NewWatermark([16]byte{}, 120)
	at := begin.Add(2 * time.Hour)
	mark.At = &at
	level := rollup.DefinedLevel{Name: rollup.Hour, Count: "n"}
	s := rolledUp(bucketsOf(rand.New(rand.NewPCG(1, 1)), all), at, all, []rollup.Watermark{mark}, level)
	for name, c := range map[string]struct {
		query TotalsQuery
		want  string
	}{
		"rows":         {TotalsQuery{Every: Step{Duration: time.Hour}}, `{"n": {"$numberLong":"60"},"count": {"max": {"$numberInt":"59"},"count": {"$numberLong":"60"}}}`},
		"exact":        {TotalsQuery{Every: Step{Duration: time.Hour}, Exact: true}, `{"n": {"$numberLong":"60"},"count": {"max": {"$numberInt":"59"},"count": {"$numberLong":"60"}}}`},
		"no level":     {TotalsQuery{Every: Step{Duration: time.Minute}}, `{"n": {"$numberLong":"1"},"count": {"max": {"$numberInt":"0"},"count": {"$numberLong":"1"}}}`},
		"another zone": {TotalsQuery{Every: Step{Days: 1}, Zone: zoneOf(t, "Asia/Kolkata")}, `{"n": {"$numberLong":"120"},"count": {"max": {"$numberInt":"59"},"count": {"$numberLong":"120"}}}`},
	} {
		c.query.Aggregations = []Aggregation{Max, Count}
		for w, err := range s.Totals(t.Context(), c.query) {
			if err != nil || w.Fields.String() != c.want {
				t.Errorf("%s: %s, %v, want %s", name, w.Fields, err, c.want)
			}
			break
		}
	}
}
