package cli

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/reader"
)

// totalled returns a shelf with totals of two days.
func totalled(t *testing.T) *shelf {
	s := filled(t)
	for day := range 2 {
		s.windows = append(s.windows, reader.Window{
			Time: time.Date(2026, 3, 1+day, 0, 0, 0, 0, time.UTC), Meta: s.all[0].Meta, Count: 60,
			Fields: raw(t, bson.D{
				{Key: "count", Value: int64(60)},
				{Key: "celsius", Value: bson.D{{Key: "mean", Value: 29.5 + float64(day)}, {Key: "max", Value: int32(59)}}},
				{Key: "wind", Value: bson.D{{Key: "speed", Value: bson.D{{Key: "mean", Value: 3.0}}}}},
			}).Document(),
		})
	}
	return s
}

func TestQueryTotals(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s := totalled(t)
	code, _, stderr := onShelf(t, s, "sensor=s-17", "celsius", "--from", "2026-03-01", "--every", "1d", "--agg", "mean, max,count", "--zone", "Europe/Berlin", "--exact", "--limit", "9", "--plot", "wind.speed.max")
	if code != exitDone || len(s.totals) != 1 || len(s.asked) != 0 {
		t.Fatalf("exit code %d, %s; %d queries for totals, %d for measurements", code, stderr, len(s.totals), len(s.asked))
	}
	want := reader.TotalsQuery{
		Query: reader.Query{
			Meta: bson.D{{Key: "meta.sensor", Value: bson.D{{Key: "$eq", Value: "s-17"}}}}, From: time.Date(2026, 2, 28, 23, 0, 0, 0, time.UTC),
			Fields: []string{"celsius", "wind.speed"}, Limit: 9,
		},
		Every: reader.Step{Days: 1}, Aggregations: []reader.Aggregation{reader.Mean, reader.Max, reader.Count}, Exact: true,
	}
	got := s.totals[0]
	if got.Zone.String() != berlin.String() {
		t.Errorf("the zone is %v", got.Zone)
	}
	got.Zone = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s = totalled(t)
	if code, _, _ := onShelf(t, s, "--every", "15m"); code != exitDone || s.totals[0].Zone != time.UTC || s.totals[0].Fields != nil || cmp.Diff(s.totals[0].Aggregations, []reader.Aggregation{reader.Mean}) != "" {
		t.Errorf("exit code %d: %+v", code, s.totals)
	}
}

// TestQueryPrintsTotals checks the columns of figures, the rollup documents in JSON, and times of the zone.
func TestQueryPrintsTotals(t *testing.T) {
	for format, want := range map[string]string{
		"table": "time                           sensor  count  celsius.mean  celsius.max  wind.speed.mean\n" +
			"2026-03-01T01:00:00.000+01:00  s-17       60          29.5           59                3\n" +
			"2026-03-02T01:00:00.000+01:00  s-17       60          30.5           59                3\n",
		"csv": "time,sensor,count,celsius.mean,celsius.max,wind.speed.mean\n" +
			"2026-03-01T01:00:00.000+01:00,s-17,60,29.5,59,3\n2026-03-02T01:00:00.000+01:00,s-17,60,30.5,59,3\n",
		"json": `{"time":{"$date":"2026-03-01T00:00:00Z"},"meta":{"sensor":"s-17"},"count":60,"celsius":{"mean":29.5,"max":59},"wind":{"speed":{"mean":3.0}}}` + "\n" +
			`{"time":{"$date":"2026-03-02T00:00:00Z"},"meta":{"sensor":"s-17"},"count":60,"celsius":{"mean":30.5,"max":59},"wind":{"speed":{"mean":3.0}}}` + "\n",
	} {
		code, stdout, stderr := onShelf(t, totalled(t), "--every", "1d", "--agg", "count,mean,max", "--zone", "Europe/Berlin", "--format", format)
		if code != exitDone || stdout != want || stderr != "" {
			t.Errorf("exit code %d, %q, printed\n%s", code, stderr, stdout)
		}
	}
	for plotted, want := range map[string]string{
		"celsius":         "celsius.mean, 2026-03-01 00:00:00 to 2026-03-02 00:00:00 UTC",
		"celsius.max":     "sensor=s-17  min 59  mean 59  max 59",
		"wind.speed.mean": "sensor=s-17  min 3  mean 3  max 3",
	} {
		s := totalled(t)
		_, stdout, _ := try(t, map[string]string{"MONGODB_URI": "mongodb://mongo/db"}, func(p *Program) {
			p.read = func(_ context.Context, _ config.Config, _ *slog.Logger, _ string, use func(measurementSource) error) error {
				return use(s)
			}
		}, "query", "m", "--every", "1d", "--agg", "mean,max", "--plot", plotted)
		if !strings.Contains(stdout, want) {
			t.Errorf("--plot %s: %q is not in\n%s", plotted, want, stdout)
		}
	}
	if _, _, stderr := onShelf(t, totalled(t), "--every", "1d", "celcius"); !strings.Contains(stderr, "None of the 2 windows has celcius. Existing fields: celsius, name.") {
		t.Errorf("it says %q", stderr)
	}
}

func TestQueryRefusesTotalsThatCannotBe(t *testing.T) {
	for want, args := range map[string][]string{
		`--every is "often", which is not a length`:           {"--every", "often"},
		`--every is "7m": windows shorter than a day must di`: {"--every", "7m"},
		`--every is "0s": windows need one length`:            {"--every", "0s"},
		`--agg has "meen", which is not an aggregation: give`: {"--every", "1h", "--agg", "max,meen"},
		`did you mean mean?`:                                  {"--every", "1h", "--agg", "meen"},
		`--agg names max twice`:                               {"--every", "1h", "--agg", "max,max"},
		`--zone is "Europe/Berln", and there is no such time`: {"--every", "1h", "--zone", "Europe/Berln"},
		"--agg is for totals: add --every":                    {"--agg", "mean"},
		"--zone is for totals: add --every":                   {"--zone", "Europe/Berlin"},
		"--exact is for totals: add --every":                  {"--exact"},
		"omit --latest, --follow, --series and --explain":     {"--every", "1h", "--latest"},
		"omit --latest, --follow, --series and --explain\n":   {"--every", "1h", "--explain"},
		"--local and --zone both set":                         {"--every", "1h", "--zone", "UTC", "--local"},
	} {
		if code, _, stderr := onShelf(t, nil, args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
}
