package reader

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// TestTotalsAreThoseOfMeasurements checks that the windows equal a fold of all measurements, for any rows and watermarks.
func TestTotalsAreThoseOfMeasurements(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Kathmandu"}
	usedRows, usedBoth := 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		begin := time.Date(2026, 3, 28, random.IntN(24), random.IntN(60), 0, 0, time.UTC) // the clocks of Berlin and Lord Howe change
		length := []time.Duration{2 * time.Hour, 50 * time.Hour, 20 * 24 * time.Hour}[random.IntN(3)]
		all := readings(random, 1+random.IntN(3), begin, length, 1+random.IntN(150))
		buckets := bucketsOf(random, all)
		horizon := begin.Add(time.Duration(random.Int64N(int64(length))))
		var inRows []fact
		marks := []rollup.Watermark{rollup.NewWatermark([16]byte{}, math.MaxInt64), rollup.NewWatermark([16]byte{}, math.MaxInt64)}
		for _, f := range all {
			if f.time < horizon.UnixMilli() {
				inRows = append(inRows, f)
			} else {
				marks[f.source.Partition].Below = min(marks[f.source.Partition].Below, f.at.Offset)
			}
		}
		for i := range marks {
			at := horizon.Add(time.Duration(random.IntN(2)*random.IntN(600)) * time.Second * time.Duration(i))
			marks[i].At = &at
		}
		if random.IntN(10) == 0 { // no pass has ended yet, so nothing is known about the rows
			marks[0].At, marks[0].Below = nil, 0
		}
		var levels []rollup.DefinedLevel
		for _, name := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
			if random.IntN(3) > 0 {
				l := rollup.DefinedLevel{Name: name, Count: "count"}
				if random.IntN(3) == 0 {
					since := begin.Add(time.Duration(random.Int64N(int64(length))))
					l.Since = &since
				}
				levels = append(levels, l)
			}
		}
		s := rolledUp(buckets, begin.Add(length), inRows, marks, levels...)
		for _, l := range levels { // an incomplete level has nothing before
			if l.Since != nil {
				known, _ := l.Level()
				since := known.WindowEnd(l.Since.UnixMilli() - 1)
				later := slices.DeleteFunc(slices.Clone(inRows), func(f fact) bool { return f.time < since })
				s.levels["s_"+l.Name].buckets = rowsOf(known, l.Rules(), later)
			}
		}
		zone := zoneOf(t, zones[random.IntN(len(zones))])
		step := []Step{{Duration: 30 * time.Second}, {Duration: 15 * time.Minute}, {Duration: time.Hour}, {Days: 1}, {Weeks: 1}, {Months: 1}}[random.IntN(6)]
		q := TotalsQuery{Every: step, Zone: zone, Aggregations: allAggregations}
		w := windows{step, zone}
		from, to := int64(math.MinInt64), int64(math.MaxInt64)
		if random.IntN(2) == 0 {
			q.From = begin.Add(time.Duration(random.Int64N(int64(length))))
			from, _ = w.of(q.From.UnixMilli())
		}
		if random.IntN(2) == 0 {
			q.To = begin.Add(length)
			_, to = w.of(q.To.UnixMilli() - 1)
		}
		want := linesOf(folded(all, &rollup.Rules{}, func(ms int64) int64 { at, _ := w.of(ms); return at }), from, to, allAggregations)
		got, err := lines(s.Totals(t.Context(), q))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("seed %d, %+v of %v, %v: %v\n%s", seed, q, levels, marks, err, diff)
		}
		rows := 0
		for _, f := range s.levels {
			rows += f.sent
		}
		if rows > 0 {
			usedRows++
			if s.main.sent > 0 {
				usedBoth++
			}
		}
		q.Exact = true
		before := rows
		if got, err := lines(s.Totals(t.Context(), q)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: exactly: %v\n%s", seed, err, cmp.Diff(want, got))
		}
		rows = 0
		for _, f := range s.levels {
			rows += f.sent
		}
		if rows != before {
			t.Fatalf("seed %d: an exact query read rows", seed)
		}
		q.Exact, q.Limit = false, 1+random.Int64N(5)
		if got, err := lines(s.Totals(t.Context(), q)); err != nil || !slices.Equal(got, want[:min(len(want), int(q.Limit))]) {
			t.Fatalf("seed %d: %d windows: %v\n%s", seed, q.Limit, err, cmp.Diff(want, got))
		}
	}
	if usedRows < 20 || usedBoth < 12 {
		t.Errorf("rows were read in %d cases, with measurements in %d", usedRows, usedBoth)
	}
}

// aDay returns a day of one series with a measurement per minute. All but the last hour is in rows, and the hours before noon
// have expired.
func aDay(t *testing.T, levels ...rollup.DefinedLevel) (rolled, []fact, time.Time) {
	t.Helper()
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var all []fact
	for minute := range 24 * 60 {
		all = append(all, fact{
			meta: stringMetas(1)[0], time: begin.Add(time.Duration(minute) * time.Minute).UnixMilli(), at: timeseries.Position{Offset: int64(minute)},
			fields: bson.D{{Key: "celsius", Value: int32(minute % 60)}, {Key: "humidity", Value: 40}},
		})
	}
	mark, at := rollup.NewWatermark([16]byte{}, 23*60), begin.Add(23*time.Hour)
	mark.At = &at
	random := rand.New(rand.NewPCG(1, 1))
	return rolledUp(bucketsOf(random, all[12*60:]), begin.AddDate(0, 0, 1), all[:23*60], []rollup.Watermark{mark}, levels...), all, begin
}

func defined(names ...string) (list []rollup.DefinedLevel) {
	for _, name := range names {
		list = append(list, rollup.DefinedLevel{Name: name, Count: "count"})
	}
	return list
}

// TestTotalsReadTheCoarsestLevel checks that windows are read from the coarsest level that divides them. Finer levels fill its
// gaps, and measurements the rest.
func TestTotalsReadTheCoarsestLevel(t *testing.T) {
	for _, c := range []struct {
		levels []string
		every  string
		zone   string
		want   string // numbers of documents read of each level, and of buckets
	}{
		{[]string{"1m", "1h", "1d"}, "1d", "UTC", "s_1h=1"},
		{[]string{"1m", "1h", "1d"}, "1h", "UTC", "s_1h=1"},
		{[]string{"1m", "1h", "1d"}, "15m", "UTC", "s_1m=23"},
		{[]string{"1h"}, "15m", "UTC", ""},
		{[]string{"1m", "1h"}, "1h", "Asia/Kolkata", "s_1m=23"},
		{[]string{"1h"}, "1d", "Asia/Kolkata", ""},
		{[]string{"1m", "1h"}, "1d", "Europe/Berlin", "s_1h=1"},
	} {
		s, all, _ := aDay(t, defined(c.levels...)...)
		step, err := ParseStep(c.every)
		if err != nil {
			t.Fatal(err)
		}
		zone := zoneOf(t, c.zone)
		got, err := lines(s.Totals(t.Context(), TotalsQuery{Every: step, Zone: zone, Aggregations: allAggregations}))
		if c.want == "" { // expired measurements are not in rows
			all = all[12*60:]
		}
		want := linesOf(folded(all, &rollup.Rules{}, func(ms int64) int64 { at, _ := windows{step, zone}.of(ms); return at }), math.MinInt64, math.MaxInt64, allAggregations)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: %v\n%s", c, err, diff)
		}
		var read []string
		for _, name := range []string{"s_1m", "s_1h", "s_1d"} {
			if f := s.levels[name]; f != nil && f.sent > 0 {
				read = append(read, fmt.Sprintf("%s=%d", name, f.sent))
			}
		}
		if strings.Join(read, " ") != c.want || s.main.sent == 0 {
			t.Errorf("%v: it read %v and %d buckets, want %s", c, read, s.main.sent, c.want)
		}
	}
}

// TestTotalsOfFieldsThatRowsLack checks that they come from measurements.
func TestTotalsOfFieldsThatRowsLack(t *testing.T) {
	level := rollup.DefinedLevel{Name: rollup.Hour, Count: "n", Fields: []string{"celsius", "wind.*"}}
	for _, c := range []struct {
		fields []string
		rows   bool
		first  string
	}{
		{nil, true, `{"n": {"$numberLong":"60"},"celsius": {"max": {"$numberInt":"59"},"count": {"$numberLong":"60"}}}`},
		{[]string{"celsius"}, true, `{"n": {"$numberLong":"60"},"celsius": {"max": {"$numberInt":"59"},"count": {"$numberLong":"60"}}}`},
		{[]string{"wind"}, true, `{"n": {"$numberLong":"60"}}`},
		{[]string{"humidity"}, false, `{"n": {"$numberLong":"60"},"humidity": {"max": {"$numberInt":"40"},"count": {"$numberLong":"60"}}}`},
		{[]string{"celsius", "humidity"}, false, `{"n": {"$numberLong":"60"},"celsius": {"max": {"$numberInt":"59"},"count": {"$numberLong":"60"}},` +
			`"humidity": {"max": {"$numberInt":"40"},"count": {"$numberLong":"60"}}}`},
	} {
		s, _, _ := aDay(t, level)
		q := TotalsQuery{Query: Query{Fields: c.fields}, Every: Step{Duration: time.Hour}, Aggregations: []Aggregation{Max, Count}}
		var first string
		for w, err := range s.Totals(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			first = w.Fields.String()
			break
		}
		if first != c.first || (s.levels["s_1h"].sent > 0) != c.rows {
			t.Errorf("%q: %s, want %s; %d documents of rows were read", c.fields, first, c.first, s.levels["s_1h"].sent)
		}
	}
}

// TestTotalsFoldRowsOfOneWindow checks this because update-meta may leave two rows for a series.
func TestTotalsFoldRowsOfOneWindow(t *testing.T) {
	s, all, begin := aDay(t, defined(rollup.Hour)...)
	level, _ := rollup.LevelOf(rollup.Hour)
	documents := s.levels["s_1h"].buckets
	for i, some := range [][]fact{all[:10], all[10 : 23*60]} {
		for _, raw := range rowsOf(level, &rollup.Rules{}, some) {
			var d bson.D
			if err := bson.Unmarshal(raw, &d); err != nil {
				t.Fatal(err)
			}
			id := d[0].Value.(bson.ObjectID)
			id[11] = byte(i)
			d[0].Value = id
			documents = append(documents, encode(d))
		}
	}
	s.levels["s_1h"].buckets = documents[1:]
	q := TotalsQuery{Every: Step{Duration: time.Hour}, Aggregations: allAggregations, Query: Query{From: begin}}
	got, err := lines(s.Totals(t.Context(), q))
	want := linesOf(folded(all, &rollup.Rules{}, level.Window), math.MinInt64, math.MaxInt64, allAggregations)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestTotalsWithoutWholeRows checks that rows are not used if their progress is unknown, or if other consumers store too.
func TestTotalsWithoutWholeRows(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *rolled, begin time.Time)
		rows   bool
	}{
		"as it is":        {func(*rolled, time.Time) {}, true},
		"no partition":    {func(s *rolled, _ time.Time) { s.main.partitions = nil }, false},
		"no rollups":      {func(s *rolled, _ time.Time) { s.main.rolled = nil }, false},
		"a level is gone": {func(s *rolled, _ time.Time) { s.levels["s_1h"] = nil; delete(s.levels, "s_1h") }, false},
		"an idle partition, which nobody claims": {func(s *rolled, _ time.Time) {
			s.main.partitions = append(s.main.partitions, encode(bson.D{{Key: "_id", Value: "old/7"}, {Key: "topicId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}))
		}, true},
		"a partition whose consumer knows no rollups": {func(s *rolled, begin time.Time) {
			s.main.partitions = append(s.main.partitions, encode(bson.D{{Key: "_id", Value: "old/7"}, {Key: "topicId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}))
			f := fact{
				meta: stringMetas(1)[0], time: begin.Add(5 * time.Hour).UnixMilli(), source: timeseries.Source{Topic: "old", Partition: 7},
				fields: bson.D{{Key: "celsius", Value: int32(1)}},
			}
			s.main.buckets = append(s.main.buckets, bucketOf(testOptions, f))
			since := begin.Add(2 * time.Hour)
			s.main.rolled = encode(rollup.Definition{ID: rollup.DefinitionID, Levels: []rollup.DefinedLevel{{Name: rollup.Hour, Count: "count", Since: &since}}})
		}, false},
		"such a partition, and a level that is complete from the beginning": {func(s *rolled, begin time.Time) {
			s.main.partitions = append(s.main.partitions, encode(bson.D{{Key: "_id", Value: "old/7"}, {Key: "topicId", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}}}))
			f := fact{
				meta: stringMetas(1)[0], time: begin.UnixMilli(), source: timeseries.Source{Topic: "old", Partition: 7},
				fields: bson.D{{Key: "celsius", Value: int32(1)}},
			}
			s.main.buckets = append(s.main.buckets, bucketOf(testOptions, f))
		}, false},
		"rows expired": {func(s *rolled, _ time.Time) { s.levels["s_1h"].options.ExpireAfterSeconds = 1800 }, false},
	} {
		s, _, begin := aDay(t, defined(rollup.Hour)...)
		c.change(&s, begin)
		if _, err := lines(s.Totals(t.Context(), TotalsQuery{Every: Step{Duration: time.Hour}})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f := s.levels["s_1h"]; (f != nil && f.sent > 0) != c.rows {
			t.Errorf("%s: rows were read: %v", name, !c.rows)
		}
	}
}

// TestTotalsTellOfWhatCannotBeRead checks that the caller decides whether to continue, and that other errors end the read.
func TestTotalsTellOfWhatCannotBeRead(t *testing.T) {
	s, _, _ := aDay(t, defined(rollup.Hour)...)
	f := fact{meta: stringMetas(1)[0], time: time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC).UnixMilli(), at: timeseries.Position{Offset: 99_999}}
	s.main.buckets = append(s.main.buckets, inControl(bucketOf(testOptions, f), bson.E{Key: "version", Value: int32(9)}))
	told, found := 0, 0
	for w, err := range s.Totals(t.Context(), TotalsQuery{Every: Step{Duration: time.Hour}}) {
		var bucket *BucketError
		switch {
		case errors.As(err, &bucket):
			told++
		case err != nil:
			t.Fatal(err)
		default:
			found++
			if w.Count != 60 || w.End.Sub(w.Time) != time.Hour {
				t.Errorf("%+v", w)
			}
		}
	}
	if told != 1 || found != 24 {
		t.Errorf("%d errors, %d windows", told, found)
	}
	s.main.fail = func() error { return mongo.CommandError{Code: 13, Message: "no such luck"} }
	n := 0
	for _, err := range s.Totals(t.Context(), TotalsQuery{Every: Step{Duration: time.Hour}}) {
		if n++; err == nil || !strings.Contains(err.Error(), "no such luck") {
			t.Errorf("%v", err)
		}
	}
	if n != 1 {
		t.Errorf("it went on after an error")
	}
}

func TestTotalsRefuseWhatCannotBeAsked(t *testing.T) {
	s, _, begin := aDay(t)
	for want, q := range map[string]TotalsQuery{
		"one length":                     {},
		"must divide a day":              {Every: Step{Duration: 7 * time.Minute}},
		`"median", which is not`:         {Every: Step{Days: 1}, Aggregations: []Aggregation{"median"}},
		"in the order of time":           {Every: Step{Days: 1}, Query: Query{Newest: true}},
		"before it begins":               {Every: Step{Days: 1}, Query: Query{From: begin, To: begin.Add(-time.Hour)}},
		"is not a valid name of a field": {Every: Step{Days: 1}, Query: Query{Fields: []string{"$x"}}},
	} {
		_, err := lines(s.Totals(t.Context(), q))
		if _, ok := errors.AsType[*QueryError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
}

// TestTotalsDecode checks that a window is a document like those of rollups.
func TestTotalsDecode(t *testing.T) {
	s, _, begin := aDay(t, defined(rollup.Hour)...)
	q := TotalsQuery{Every: Step{Days: 1}, Zone: zoneOf(t, "Europe/Berlin"), Aggregations: []Aggregation{Count, Mean, Last}}
	var list []string
	for w, err := range s.Totals(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Time    time.Time `bson:"t"`
			Meta    struct{ Sensor string }
			Count   int64
			Celsius struct {
				Mean float64
				Last int32
			}
		}
		if err := bson.Unmarshal(w.Document(), &v); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintln(w.Time.Format(time.RFC3339), v.Time.Equal(w.Time), w.End.Sub(w.Time), v.Count, w.Count, v.Celsius.Mean, v.Celsius.Last))
	}
	want := []string{"2026-03-01T00:00:00+01:00 true 24h0m0s 1380 1380 29.5 59\n", "2026-03-02T00:00:00+01:00 true 24h0m0s 60 60 29.5 59\n"}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("from %s:\n%s", begin, diff)
	}
}
