package collection_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/timeseries"
)

// viewed returns a server with a view of a kind, and random buckets. It skips the test if the server has no such view.
func viewed(t *testing.T, kind collection.ViewKind, buckets int) (*env, []bson.Raw) {
	t.Helper()
	e := connect(t)
	e.as.View = kind
	if _, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, e.as); err != nil {
		t.Skipf("the server at E2E_MONGODB_URI has no view of kind %s: %v", kind, err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	o, err := definition.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	for range buckets {
		all = append(all, randomBucket(random, o, 1+random.IntN(200), random.IntN(30)))
	}
	if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return e, all
}

func (e *env) view(t *testing.T, filter bson.D) []bson.Raw {
	t.Helper()
	cursor, err := e.Raw.Collection("events").Find(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := cursor.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestViewsShowTheMeasurements checks that each kind of view shows what this program reads in the same buckets.
func TestViewsShowTheMeasurements(t *testing.T) {
	for _, kind := range []collection.ViewKind{collection.ViewInternal, collection.ViewPortable} {
		t.Run(string(kind), func(t *testing.T) {
			e, buckets := viewed(t, kind, 50)
			want := map[string]int{}
			for _, b := range buckets {
				measurements, err := collection.Measurements(definition, b)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range measurements {
					want[string(m)]++
				}
			}
			for _, m := range e.view(t, bson.D{}) {
				if want[string(m)]--; want[string(m)] < 0 {
					t.Errorf("the view shows what no bucket holds: %v", m)
				}
			}
			for m, n := range want {
				if n > 0 {
					t.Errorf("the view lacks %v", bson.Raw(m))
				}
			}
			if state, err := collection.Of(e.Database, "events").View(t.Context(), kind); err != nil || state.Kind != kind {
				t.Errorf("it is said to be %+v, %v", state, err)
			}
		})
	}
}

// TestViewsShowSegments checks each kind of view of random buckets and segments. It must show the present measurements, each
// once, also while segments end and the buckets made of them begin.
func TestViewsShowSegments(t *testing.T) {
	for _, kind := range []collection.ViewKind{collection.ViewInternal, collection.ViewPortable} {
		t.Run(string(kind), func(t *testing.T) {
			e := connect(t)
			ready, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, collection.Settings{View: kind, Segments: collection.SegmentsAuto})
			if err != nil || !ready.Segments {
				t.Skipf("the server at E2E_MONGODB_URI has no view of kind %s that shows segments: %v", kind, err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			o, err := definition.Normalize()
			if err != nil {
				t.Fatal(err)
			}
			clock, err := e.Clock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			change := clock.Add(3 * time.Second)
			metas := []any{"s-1", bson.D{{Key: "sensor", Value: "s-2"}}, int32(17), missing{}}
			var all, want []bson.Raw
			add := func(document bson.Raw, shown bool) {
				t.Helper()
				all = append(all, document)
				if shown {
					measurements, err := collection.Measurements(o, document)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, measurements...)
				}
			}
			for i := range 60 {
				// A segment ends, and a bucket of a series with the same measurements replaces it.
				begun := randomBucket(random, o, 1+random.IntN(50), random.IntN(10))
				meta := any(missing{})
				if raw := begun.Lookup("meta"); raw.Type != 0 {
					meta = raw
				}
				segment := decoded(t, segmentOf(t, o, begun, 0, func(int) any { return meta }))
				segment[0].Value = bson.NewObjectID()
				add(with(t, marshal(timeFirst(segment, o)), "segment.visibleUntil", change), true)
				add(with(t, begun, "compaction.visibleFrom", change), false)
				// These do not change.
				ends := []time.Time{clock.Add(-time.Minute), clock.Add(time.Hour)}[i%2]
				add(with(t, randomBucket(random, o, 1+random.IntN(50), random.IntN(10)), "compaction.visibleFrom", ends), i%2 == 0)
				mixed := decoded(t, segmentOf(t, o, randomBucket(random, o, 1+random.IntN(50), random.IntN(10)), 0, func(int) any { return metas[random.IntN(len(metas))] }))
				add(with(t, marshal(timeFirst(mixed, o)), "segment.visibleUntil", ends), i%2 == 1)
			}
			if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			sorted(want)
			for looks, after := 0, 0; after < 3; looks++ {
				if now, err := e.Clock(t.Context()); err != nil {
					t.Fatal(err)
				} else if now.After(change) {
					after++
				}
				if err := collection.CompareMeasurements(sorted(e.view(t, bson.D{})), want); err != nil {
					t.Fatalf("look %d: %v", looks, err)
				}
			}
		})
	}
}

// timeFirst moves the time before all other columns, and the meta after it.
func timeFirst(d bson.D, o timeseries.Options) bson.D {
	columns := fieldOf(d, "data").(bson.D)
	rank := func(e bson.E) int { return slices.Index([]string{o.MetaField, o.TimeField}, e.Key) }
	slices.SortStableFunc(columns, func(a, b bson.E) int { return rank(b) - rank(a) })
	return d
}

// TestViewsByTime checks the statements of docs/bucket-document.md about filters on time. The view with documented stages finds
// all. With its own stage the server narrows filters by _id. It then finds ordinary times with ordinary bounds, and may miss
// others. What MongoDB 5.0 misses depends on the filter. Later versions may miss less.
func TestViewsByTime(t *testing.T) {
	times := map[int]bool{1960: true, 2026: false, 2050: false, 2110: true} // by year, whether it is outside of an _id's range
	type bounds struct{ from, to int }
	all := []bounds{{1950, 2120}, {1950, 2030}, {1980, 2060}, {1980, 2120}, {2030, 2060}}
	for year := range times {
		all = append(all, bounds{year, year + 1})
	}
	start := func(year int) int64 { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() }
	for _, kind := range []collection.ViewKind{collection.ViewInternal, collection.ViewPortable} {
		t.Run(string(kind), func(t *testing.T) {
			e, _ := viewed(t, kind, 1)
			for year := range times {
				ms := start(year) + 30_000
				bucket := bucketOf("by time", definition.Round(ms), timeseries.Position{Offset: int64(year)})
				if _, err := e.Raw.Collection("events.buckets").InsertOne(t.Context(), bucket); err != nil {
					t.Fatal(err)
				}
			}
			missed := 0
			for _, b := range all {
				found := map[int]bool{}
				for _, d := range e.view(t, bson.D{{Key: "meta", Value: "by time"}, {Key: "time", Value: bson.D{
					{Key: "$gte", Value: bson.DateTime(start(b.from))}, {Key: "$lt", Value: bson.DateTime(start(b.to))},
				}}}) {
					found[d.Lookup("time").Time().UTC().Year()] = true
				}
				for year, outside := range times {
					switch within := year >= b.from && year < b.to; {
					case found[year] == within:
					case found[year] || kind == collection.ViewPortable || !outside && b.from >= 1970 && b.to < 2106:
						t.Errorf("a filter from %d to %d finds %v: the measurement of %d is there", b.from, b.to, found, year)
					default:
						missed++
					}
				}
			}
			if kind == collection.ViewInternal && strings.HasPrefix(e.Server().Version, "5.0") && missed == 0 {
				t.Error("all is found; this server differs from what the documents say")
			}
			t.Logf("filters missed %d measurements", missed)
		})
	}
}

// TestViewFindsTheNewestBucketByItsIndex checks that a filter on a whole meta and the last hour examines few keys and buckets of
// a long series. The same holds for the other filters with figures in docs/reading.md.
func TestViewFindsTheNewestBucketByItsIndex(t *testing.T) {
	e, _ := viewed(t, collection.ViewInternal, 1)
	const hour, buckets, others = int64(3_600_000), 300, 700
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	var all []bson.Raw
	for i := range buckets {
		all = append(all, bucketOf("long", begin+int64(i)*hour, timeseries.Position{Offset: int64(i)}))
	}
	end := begin + buckets*hour
	for i := range others {
		all = append(all, bucketOf("other "+strconv.Itoa(i), end-hour, timeseries.Position{Offset: int64(buckets + i)}))
	}
	if _, err := e.Raw.Collection("events.buckets").InsertMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if _, _, err := collection.Of(e.Database, "events").CreateMetaIndex(t.Context(), "meta.sensor"); err != nil { // no other filter may use it
		t.Fatal(err)
	}
	of, last := bson.E{Key: "meta", Value: "long"}, bson.E{Key: "time", Value: bson.D{{Key: "$gte", Value: bson.DateTime(end - hour)}}}
	newest := bson.D{{Key: "control.min.time", Value: -1}}
	for name, c := range map[string]struct {
		command    bson.D
		keys, docs int64 // maximum numbers
	}{
		"the last hour": {bson.D{{Key: "find", Value: "events"}, {Key: "filter", Value: bson.D{of, last}}}, 2, 1},
		"the last measurement of it": {bson.D{
			{Key: "find", Value: "events"}, {Key: "filter", Value: bson.D{of, last}}, {Key: "sort", Value: bson.D{{Key: "time", Value: -1}}}, {Key: "limit", Value: 1},
		}, 2, 1},
		"the newest bucket": {bson.D{{Key: "find", Value: "events.buckets"}, {Key: "filter", Value: bson.D{of}}, {Key: "sort", Value: newest}, {Key: "limit", Value: 1}}, 1, 1},
		"a bucket to reopen": {bson.D{{Key: "find", Value: "events.buckets"}, {Key: "filter", Value: bson.D{
			{Key: "meta", Value: bson.D{{Key: "$in", Value: bson.A{"long"}}}},
			{Key: "control.min.time", Value: bson.D{{Key: "$gt", Value: bson.DateTime(end - 2*hour)}, {Key: "$lte", Value: bson.DateTime(end - 1)}}},
			{Key: "control.closed", Value: bson.D{{Key: "$ne", Value: true}}},
		}}}, 2, 1},
	} {
		answer, err := e.Raw.RunCommand(t.Context(), bson.D{{Key: "explain", Value: c.command}, {Key: "verbosity", Value: "executionStats"}}).Raw()
		if err != nil {
			t.Fatal(err)
		}
		keys, docs, told := examined(answer)
		t.Logf("%s: %d keys and %d buckets examined", name, keys, docs)
		if !told || docs == 0 || keys > c.keys || docs > c.docs {
			t.Errorf("%s: %d keys and %d buckets examined, want %d and %d at most: %v", name, keys, docs, c.keys, c.docs, answer)
		}
	}
}

// examined adds up the keys and documents in an answer of explain. It returns false if there are none.
func examined(d bson.Raw) (keys, docs int64, told bool) {
	elements, _ := d.Elements()
	for _, e := range elements {
		v := e.Value()
		if e.Key() == "executionStats" {
			k, _ := v.Document().Lookup("totalKeysExamined").AsInt64OK()
			n, ok := v.Document().Lookup("totalDocsExamined").AsInt64OK()
			keys, docs, told = keys+k, docs+n, told || ok
			continue
		}
		if v.Type == bson.TypeEmbeddedDocument || v.Type == bson.TypeArray {
			k, n, ok := examined(v.Value)
			keys, docs, told = keys+k, docs+n, told || ok
		}
	}
	return keys, docs, told
}

// TestCheckRefusesAForeignName checks that check refuses it like Setup. Otherwise a check would pass, and a start would fail.
func TestCheckRefusesAForeignName(t *testing.T) {
	e := connect(t)
	if err := e.Raw.CreateCollection(t.Context(), "events"); err != nil {
		t.Fatal(err)
	}
	_, checked := collection.Of(e.Database, "events").Check(t.Context(), definition)
	_, failed := collection.Of(e.Database, "events").Setup(t.Context(), definition, collection.Settings{})
	if checked == nil || failed == nil || checked.Error() != failed.Error() {
		t.Errorf("a check says %v, a start %v", checked, failed)
	}
}
