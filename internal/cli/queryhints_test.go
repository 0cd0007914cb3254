package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/config"
	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// indexedShelf is a shelf with indexes.
type indexedShelf struct {
	*shelf
	buckets int64
	indexes []collection.Index
	told    *reader.Plan
	err     error
	asked   *int // number of requests for the indexes
}

// PlainIndexes implements measurementSource.
func (s indexedShelf) PlainIndexes(context.Context) (collection.IndexList, error) {
	if s.asked != nil {
		*s.asked++
	}
	return collection.IndexList{Options: s.Options(), Indexes: s.indexes}, s.err
}

// Size implements measurementSource.
func (s indexedShelf) Size(context.Context) (collection.Size, error) {
	return collection.Size{Documents: s.buckets}, nil
}

// Explain implements measurementSource.
func (s indexedShelf) Explain(context.Context, reader.Query) (reader.Plan, error) {
	if s.told == nil {
		return reader.Plan{}, reader.ErrNoExplain
	}
	return *s.told, nil
}

func onIndexedShelf(t *testing.T, s indexedShelf, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return try(t, map[string]string{"MONGODB_URI": "mongodb://mongo/db"}, func(p *Program) {
		p.read = func(_ context.Context, _ config.Config, _ *slog.Logger, _ string, use func(measurementSource) error) error {
			return use(s)
		}
	}, append([]string{"query", "measurements"}, args...)...)
}

// indexNamed returns an index on buckets.
func indexNamed(t *testing.T, name, keys string) collection.Index {
	t.Helper()
	options, err := bson.Marshal(bson.D{{Key: "name", Value: name}})
	if err != nil {
		t.Fatal(err)
	}
	return collection.Index{Name: name, Buckets: timeseries.Index{Keys: extDocument(t, keys), Options: options}}
}

// TestQuerySaysWhichIndexWouldHelp checks the hint after a query has read many buckets for few measurements.
func TestQuerySaysWhichIndexWouldHelp(t *testing.T) {
	bySensor := indexNamed(t, "by sensor", `{"meta.sensor": 1, "control.min.time": 1, "control.max.time": 1}`)
	for name, c := range map[string]struct {
		shelf indexedShelf
		args  []string
		hint  string
	}{
		"no index":       {indexedShelf{buckets: 5000}, []string{"sensor=s-17"}, `No index supports queries on meta.sensor: up to 5000 buckets and segments were read. This command creates an index: waterwheel collection create-index '{"meta.sensor":1,"time":-1}', or META_INDEXES=meta.sensor.`},
		"and a time":     {indexedShelf{buckets: 5000}, []string{"sensor=s-17", "--from", "2026-03-01"}, "No index supports queries on meta.sensor, time"},
		"an index":       {indexedShelf{buckets: 5000, indexes: []collection.Index{bySensor}}, []string{"sensor=s-17"}, ""},
		"few buckets":    {indexedShelf{buckets: 500}, []string{"sensor=s-17"}, ""},
		"no condition":   {indexedShelf{buckets: 5000}, nil, ""},
		"a contrary":     {indexedShelf{buckets: 5000}, []string{"sensor!=s-17"}, ""},
		"no list of any": {indexedShelf{buckets: 5000, err: errors.New("no")}, []string{"sensor=s-17"}, ""},
	} {
		c.shelf.shelf = filled(t)
		code, stdout, stderr := onIndexedShelf(t, c.shelf, append(c.args, "--format", "json")...)
		if code != exitDone || !strings.Contains(stdout, "s-17") || (c.hint == "") != (stderr == "") || !strings.Contains(stderr, c.hint) {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
}

// TestNoIndexIsAdvisedForAField checks this because an index on a part that no meta has would find nothing.
func TestNoIndexIsAdvisedForAField(t *testing.T) {
	const says = `"celsius" is a field of the measurements: conditions are on the meta, which has sensor. Filter the output, or query the view.`
	for _, args := range [][]string{{"celsius=3"}, {"--filter", `{"meta.celsius": {"$gt": 3}}`}, {"sensor=s-17", "celsius=3"}} {
		s := indexedShelf{shelf: filled(t), buckets: 5000}
		s.selected = nil
		code, _, stderr := onIndexedShelf(t, s, args...)
		if code != exitDone || strings.Count(stderr, says) != 1 || strings.Contains(stderr, "create-index") {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
		code, stdout, stderr := onIndexedShelf(t, s, append(args, "--explain")...)
		if code != exitDone || !strings.Contains(stdout, "Better") || !strings.Contains(stdout, says) || strings.Contains(stdout, "create-index") {
			t.Errorf("%v, explained: exit code %d, %s\n%s", args, code, stderr, stdout)
		}
	}
}

// TestQueryAsksForNoIndexesInVain checks that a query that no index can help makes no extra request.
func TestQueryAsksForNoIndexesInVain(t *testing.T) {
	for condition, want := range map[string]int{"sensor=s-17": 1, "sensor!=s-17": 0, "": 0} {
		asked := 0
		args := []string{condition}[:min(1, len(condition))]
		if code, _, stderr := onIndexedShelf(t, indexedShelf{shelf: filled(t), buckets: 10, asked: &asked}, args...); code != exitDone || asked != want {
			t.Errorf("%q: exit code %d, asked %d times, want %d: %s", condition, code, asked, want, stderr)
		}
	}
}

func TestQueryIsExplained(t *testing.T) {
	s := indexedShelf{shelf: filled(t), buckets: 5000}
	code, stdout, stderr := onIndexedShelf(t, s, "sensor=s-17", "--from", "2026-03-01", "--to", "2026-03-02", "--explain")
	for _, want := range []string{
		`{"$and":[{"meta.sensor":{"$eq":"s-17"}},{"time":{"$gte":{"$date":"2026-03-01T00:00:00Z"},"$lt":{"$date":"2026-03-02T00:00:00Z"}}}]}`,
		"no index supports the filter: every bucket is read", "this MongoDB does not report", `create-index '{"meta.sensor":1,"time":-1}'`,
	} {
		if code != exitDone || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, %s; %q is not in:\n%s", code, stderr, want, stdout)
		}
	}
	s.indexes, s.told = []collection.Index{indexNamed(t, "by sensor", `{"meta.sensor": 1}`)}, &reader.Plan{
		Segments: &reader.Cost{Buckets: 3, DocumentsExamined: 4, KeysExamined: 5, Indexes: []string{"low"}},
		Listing:  &reader.Cost{Buckets: 2, DocumentsExamined: 55, KeysExamined: 57, Indexes: []string{"other"}}, Series: 300, Explained: 100,
		Reading: reader.Cost{Buckets: 101, DocumentsExamined: 102, KeysExamined: 103},
	}
	if _, stdout, _ = onIndexedShelf(t, s, "sensor=s-17", "--explain"); !strings.Contains(stdout, "by sensor supports the filter on meta.sensor") ||
		!strings.Contains(stdout, "segments  4 documents and 5 keys examined to find 3 documents, with low\n") ||
		!strings.Contains(stdout, "listing   55 buckets and 57 keys examined to find 2 buckets, with other\n") ||
		!strings.Contains(stdout, "reading   the first 100 of 300 series: 102 buckets and 103 keys examined to find 101 buckets, with no index\n") || strings.Contains(stdout, "create-index") {
		t.Error(stdout)
	}
	for _, flag := range []string{"--follow", "--plot=celsius", "--format=json"} {
		if code, _, stderr := onIndexedShelf(t, s, "sensor=s-17", "--explain", flag); code != exitUsage || !strings.Contains(stderr, "--explain prints") {
			t.Errorf("%s: exit code %d, %s", flag, code, stderr)
		}
	}
}
