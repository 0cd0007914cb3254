package reader

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// connected returns a database of its own on the server at E2E_MONGODB_URI.
func connected(t testing.TB) *mongo.Database {
	t.Helper()
	uri := os.Getenv("E2E_MONGODB_URI")
	if uri == "" {
		t.Skip("E2E_MONGODB_URI is not set: no MongoDB to test with")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority}))
	if err != nil {
		t.Fatal(err)
	}
	db := client.Database(fmt.Sprintf("reader_%d", time.Now().UnixNano()%1e12))
	t.Cleanup(func() {
		ctx := context.Background()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
	return db
}

// setUp creates a time series as the consumer does, and inserts buckets.
func setUp(t testing.TB, db *mongo.Database, name string, o timeseries.Options, buckets []bson.Raw) *Series {
	t.Helper()
	return setUpWith(t, db, name, o, buckets, collection.Settings{})
}

// setUpWith is setUp with settings of the consumer.
func setUpWith(t testing.TB, db *mongo.Database, name string, o timeseries.Options, buckets []bson.Raw, as collection.Settings) *Series {
	t.Helper()
	d, err := mongodb.Open(t.Context(), mongodb.Options{URI: os.Getenv("E2E_MONGODB_URI"), Database: db.Name(), WriteTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(t.Context())
	if _, err := collection.Of(d, name).Setup(t.Context(), o, as); err != nil {
		t.Fatal(err)
	}
	if len(buckets) > 0 {
		if _, err := db.Collection(name+timeseries.BucketsSuffix).InsertMany(t.Context(), buckets); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), db, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpenReadsTheDefinition(t *testing.T) {
	db := connected(t)
	if _, err := Open(t.Context(), db, "events"); !errors.Is(err, ErrNotSetUp) {
		t.Errorf("opening nothing gave %v, want ErrNotSetUp", err)
	}
	s := setUp(t, db, "events", testOptions, nil)
	if s.Name() != "events" || s.Options() != testOptions {
		t.Errorf("opened %q with %+v, want %+v", s.Name(), s.Options(), testOptions)
	}
	if got, err := facts(s.Find(t.Context(), Query{})); err != nil || got != nil {
		t.Errorf("an empty series has %q, %v", got, err)
	}
}

// TestReadsAsTheModelOnAServer checks that queries mean the same on a server as on the fake.
func TestReadsAsTheModelOnAServer(t *testing.T) {
	db := connected(t)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 3))
		metas := append(stringMetas(3), valueOf("plain"), valueOf(int32(1)), valueOf(1.0), bson.RawValue{Type: bson.TypeNull}, bson.RawValue{},
			valueOf(bson.D{{Key: "n", Value: int32(5)}}), valueOf(bson.D{{Key: "n", Value: 5.0}}))
		stored, buckets := randomFacts(random, testOptions, metas, -1e9, 400)
		s := setUp(t, db, fmt.Sprintf("events%d", seed), testOptions, buckets)
		got, err := facts(s.Find(t.Context(), Query{}))
		want := texts(stored, math.MinInt64, math.MaxInt64, false)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("seed %d: %v\n%s", seed, err, diff)
		}
	}
}

// ordersNaN reports whether the server sorts objects with NaN as MongoDB does.
func ordersNaN(t *testing.T, db *mongo.Database) bool {
	t.Helper()
	c := db.Collection("nan")
	for _, n := range []float64{-1, math.NaN(), math.Inf(-1)} {
		if _, err := c.InsertOne(t.Context(), bson.D{{Key: "v", Value: bson.D{{Key: "n", Value: n}}}}); err != nil {
			t.Fatal(err)
		}
	}
	cursor, err := c.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "v", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ V struct{ N float64 } }
	if err := cursor.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return len(all) == 3 && math.IsNaN(all[0].V.N) && math.IsInf(all[1].V.N, -1)
}

// hasNaN reports whether a meta has NaN as its n.
func hasNaN(meta bson.RawValue) bool {
	d, _ := meta.DocumentOK()
	n, _ := d.Lookup("n").DoubleOK()
	return math.IsNaN(n)
}

// TestReadsSegmentsOnAServer checks that filters mean the same in segments as in buckets, and that compacted measurements come
// once.
func TestReadsSegmentsOnAServer(t *testing.T) {
	db := connected(t)
	metas := segmentMetas()
	if !ordersNaN(t, db) {
		t.Log("this server does not order NaN below all numbers: metas with NaN are left out")
		metas = slices.DeleteFunc(metas, hasNaN)
	}
	for seed := range uint64(2) {
		w := newWorld(rand.New(rand.NewPCG(seed, 12)), metas, -1e9, 200)
		for _, s := range w.compactions {
			if s.at = s.at.Add(time.Since(w.clock)); s.at.After(time.Now()) {
				s.at = time.Now().Add(time.Hour)
			}
		}
		w.show()
		name := fmt.Sprintf("segments%d", seed)
		s := setUp(t, db, name, testOptions, w.buckets)
		_, err := db.Collection(name+timeseries.OptionsSuffix).UpdateByID(t.Context(), timeseries.DefinitionID,
			bson.D{{Key: "$set", Value: bson.D{{Key: "segments", Value: true}}}})
		if err != nil {
			t.Fatal(err)
		}
		expression := selection{"expression", bson.D{{Key: "$expr", Value: bson.D{{Key: "$gte", Value: bson.A{"$m.sensor", "s-1"}}}}}, func(meta bson.RawValue) bool {
			part := orNone(meta, "sensor")
			return part.Type != 0 && timeseries.Compare(part, valueOf("s-1")) >= 0
		}}
		for _, selection := range append(selections(), expression) {
			var selected []fact
			for _, f := range w.facts {
				if selection.takes(f.meta) {
					selected = append(selected, f)
				}
			}
			q := Query{Meta: selection.filter}
			want := texts(selected, math.MinInt64, math.MaxInt64, false)
			if got, err := facts(s.Find(t.Context(), q)); err != nil || !slices.Equal(got, want) {
				t.Errorf("seed %d, %s: %v\n%s", seed, selection.name, err, cmp.Diff(want, got))
			}
			want = texts(newestOf(selected), math.MinInt64, math.MaxInt64, false)
			if got, err := facts(s.Latest(t.Context(), q)); err != nil || !slices.Equal(got, want) {
				t.Errorf("seed %d, the newest of %s: %v\n%s", seed, selection.name, err, cmp.Diff(want, got))
			}
			var metas []string
			for meta, err := range s.Series(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				metas = append(metas, timeseries.Key(meta))
			}
			if diff := cmp.Diff(metasOf(selected), metas); diff != "" {
				t.Errorf("seed %d, the series of %s: %s", seed, selection.name, diff)
			}
		}
	}
}

// TestBoundsThatMongoDBsOwnStageGetsWrong checks that this package answers them correctly, as docs/reading.md says.
func TestBoundsThatMongoDBsOwnStageGetsWrong(t *testing.T) {
	var buckets []bson.Raw
	var want []string
	begin := time.Date(2016, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli() // also the start of the bucket
	for i := range int64(5) {
		want = append(want, fmt.Sprint(begin+200*i))
	}
	var some []fact
	for i := range int64(5) {
		some = append(some, fact{meta: valueOf("a"), time: begin + 200*i, fields: bson.D{{Key: "x", Value: i}}})
	}
	buckets = append(buckets, bucketOf(testOptions, some...))
	s := setUp(t, connected(t), "events", testOptions, buckets)
	at := time.UnixMilli(begin)
	for name, c := range map[string]struct {
		from, to time.Time
		want     []string
	}{
		"from 1970":              {time.Unix(0, 0), time.Time{}, want},
		"from 1900":              {time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}, want},
		"to 2106":                {time.Time{}, time.Date(2106, 2, 8, 0, 0, 0, 0, time.UTC), want},
		"between them":           {time.Unix(0, 0), time.Date(2106, 2, 8, 0, 0, 0, 0, time.UTC), want},
		"a fraction of a second": {at.Add(-time.Hour), at.Add(500 * time.Millisecond), want[:3]},
	} {
		var got []string
		for m, err := range s.Find(t.Context(), Query{Meta: bson.D{{Key: "m", Value: "a"}}, From: c.from, To: c.to}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(m.Time.UnixMilli()))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// orNone returns a field of a meta. Type 0 means none.
func orNone(meta bson.RawValue, name string) bson.RawValue {
	if meta.Type != bson.TypeEmbeddedDocument {
		return bson.RawValue{}
	}
	return meta.Document().Lookup(name)
}

// counting counts the buckets that a server sends.
type counting struct {
	port
	buckets int
}

func (c *counting) find(ctx context.Context, r request) (documents, error) {
	d, err := c.port.find(ctx, r)
	return countingAnswer{d, c}, err
}

type countingAnswer struct {
	documents
	counted *counting
}

func (a countingAnswer) Next(ctx context.Context) bool {
	more := a.documents.Next(ctx)
	if more {
		a.counted.buckets++
	}
	return more
}

var benchmarkSeries = flag.Int("series", 10_000, "how many series BenchmarkOneOfManySeries has")

// BenchmarkOneOfManySeries reads an hour, and the newest measurement, of one series among many that have two hours each.
func BenchmarkOneOfManySeries(b *testing.B) {
	db := connected(b)
	s := setUp(b, db, "events", testOptions, nil)
	var batch []bson.Raw
	for i := range *benchmarkSeries {
		meta := valueOf(bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%d", i)}})
		for hour := range 2 {
			batch = append(batch, bucketOf(testOptions,
				fact{meta: meta, time: int64(hour)*3_600_000 + 1000, fields: bson.D{{Key: "x", Value: 1.5}}},
				fact{meta: meta, time: int64(hour)*3_600_000 + 3_000_000, fields: bson.D{{Key: "x", Value: 2.5}}}))
		}
		if len(batch) >= 2000 || i == *benchmarkSeries-1 {
			if _, err := db.Collection("events"+timeseries.BucketsSuffix).InsertMany(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	counted := &counting{port: s.port}
	s.port = counted
	query := Query{
		Meta: bson.D{{Key: "m", Value: bson.D{{Key: "sensor", Value: "s-17"}}}},
		From: time.UnixMilli(1_800_000), To: time.UnixMilli(5_400_000),
	}
	for name, read := range map[string]func(context.Context, Query) iter.Seq2[Measurement, error]{"hour": s.Find, "latest": s.Latest} {
		b.Run(name, func(b *testing.B) {
			counted.buckets = 0
			for b.Loop() {
				if got, err := facts(read(b.Context(), query)); err != nil || len(got) == 0 {
					b.Fatal(got, err)
				}
			}
			b.ReportMetric(float64(counted.buckets)/float64(b.N), "buckets/op")
		})
	}
}

// TestSegmentsOfASeriesAreFoundByAnIndex checks that a query of one series examines only the segments that cover it. It queries
// through the package and through the view, which has no index hint.
func TestSegmentsOfASeriesAreFoundByAnIndex(t *testing.T) {
	db := connected(t)
	const flushes, each = 40, 10
	var segments []bson.Raw
	for flush := range flushes {
		for first := 0; first < 200; first += each {
			var list []fact
			for i := first; i < first+each; i++ {
				meta := bson.D{{Key: "sensor", Value: fmt.Sprintf("s-%03d", i)}, {Key: "site", Value: "north"}}
				list = append(list, fact{
					meta: valueOf(meta), time: 1_700_000_000_000 + int64(flush)*5000, source: timeseries.Source{TopicID: [16]byte{1}},
					at: timeseries.Position{Offset: int64(1000*flush + i)}, fields: bson.D{{Key: "x", Value: 1.5}},
				})
			}
			segments = append(segments, segmentOf(testOptions, list...))
		}
	}
	path := testOptions.MetaField + ".sensor"
	s := setUpWith(t, db, "events", testOptions, segments, collection.Settings{Segments: collection.SegmentsOn, MetaPaths: []string{path}})
	begin := time.UnixMilli(1_700_000_000_000)
	part := bson.E{Key: path, Value: "s-117"}
	whole := bson.E{Key: testOptions.MetaField, Value: bson.D{{Key: "sensor", Value: "s-117"}, {Key: "site", Value: "north"}}}
	for name, filter := range map[string]bson.D{"part": {part}, "whole": {whole}, "both": {whole, part}} {
		q := Query{Meta: filter, From: begin, To: begin.Add(time.Hour)}
		got, err := facts(s.Find(t.Context(), q))
		if err != nil || len(got) != flushes {
			t.Errorf("%s: %d measurements, %v", name, len(got), err)
		}
		plan, err := s.Explain(t.Context(), q)
		if errors.Is(err, ErrNoExplain) {
			t.Skip(err)
		}
		if err != nil || plan.Segments == nil {
			t.Fatalf("%s: %+v, %v", name, plan, err)
		}
		checkBounds(t, name, *plan.Segments, path, flushes)
	}
	if names, err := db.ListCollectionNames(t.Context(), bson.D{{Key: "name", Value: "events"}}); err != nil || len(names) == 0 {
		t.Skip("this server has no view of segments")
	}
	times := bson.E{Key: testOptions.TimeField, Value: bson.D{{Key: "$gte", Value: begin}, {Key: "$lt", Value: begin.Add(time.Hour)}}}
	for name, filter := range map[string]bson.D{"the view": {part, times}, "the view, by both": {whole, part, times}} {
		cursor, err := db.Collection("events").Find(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		var all []bson.Raw
		if err := cursor.All(t.Context(), &all); err != nil || len(all) != flushes {
			t.Errorf("%s shows %d measurements, %v", name, len(all), err)
		}
		explain := bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: "events"}, {Key: "filter", Value: filter}}}, {Key: "verbosity", Value: "executionStats"}}
		answer, err := db.RunCommand(t.Context(), explain).Raw()
		if err != nil {
			t.Fatal(err)
		}
		stage, err := answer.LookupErr("stages", "0")
		if err != nil {
			t.Skip("this server does not explain the parts of a view")
		}
		var cost Cost
		if err := cost.add(stage.Document(), nil); err != nil {
			t.Fatal(err)
		}
		checkBounds(t, name, cost, path, flushes)
	}
}

// TestServerSkipsSegmentsOfOtherSeries checks that a server which compares bits returns few segments that lack the searched series,
// although they cover it.
func TestServerSkipsSegmentsOfOtherSeries(t *testing.T) {
	db := connected(t)
	const partitions, series = 16, 50
	var segments []bson.Raw
	for p := range partitions {
		var list []fact
		for i := range series {
			meta := bson.D{{Key: "n", Value: int32(i*partitions + p)}, {Key: "sensor", Value: fmt.Sprintf("s-%03d", i*partitions+p)}}
			list = append(list, fact{
				meta: valueOf(meta), time: 1_700_000_000_000, source: timeseries.Source{TopicID: [16]byte{1}, Partition: int32(p)},
				at: timeseries.Position{Offset: int64(i)}, fields: bson.D{{Key: "x", Value: 1.5}},
			})
		}
		segments = append(segments, segmentOf(testOptions, list...))
	}
	s := setUpWith(t, db, "events", testOptions, segments, collection.Settings{Segments: collection.SegmentsOn})
	bits := bson.D{{Key: "control.segment.bloom256", Value: timeseries.HasBits([]int32{1})}}
	if _, err := db.Collection("events"+timeseries.BucketsSuffix).CountDocuments(t.Context(), bits); err != nil {
		t.Skipf("this server has no conditions on bits: %v", err)
	}
	if !s.ordersMetas(t.Context()) || !s.comparesBits(t.Context()) {
		t.Error("the reader does not notice that this server compares bits")
	}
	for name, filter := range map[string]bson.D{
		"part":  {{Key: "m.sensor", Value: "s-117"}},
		"whole": {{Key: "m", Value: bson.D{{Key: "n", Value: 117.0}, {Key: "sensor", Value: "s-117"}}}},
	} {
		q := Query{Meta: filter}
		if got, err := facts(s.Find(t.Context(), q)); err != nil || len(got) != 1 {
			t.Errorf("%s: %d measurements, %v", name, len(got), err)
		}
		p, err := s.prepare(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		returned := 0
		answer, err := s.port.find(t.Context(), s.segmentRequest(&p))
		if err = each(t.Context(), answer, err, func(bson.Raw) error { returned++; return nil }); err != nil || returned == 0 || returned > 2 {
			t.Errorf("%s: the server returns %d of %d segments, %v", name, returned, partitions, err)
		}
	}
}

// checkBounds checks that segments were found with the index on a path's bounds, and that no others were examined.
func checkBounds(t *testing.T, name string, c Cost, path string, segments int64) {
	t.Helper()
	index := fmt.Sprintf("%s_1_%s_1", timeseries.MaxPath(path), timeseries.MinPath(path))
	if c.DocumentsExamined != segments || c.KeysExamined > 3*segments || !slices.Contains(c.Indexes, index) {
		t.Errorf("%s: %+v, want %d segments by %s", name, c, segments, index)
	}
}
