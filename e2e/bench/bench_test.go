package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/harness"
)

// small is a load for embedded servers.
func small() Load {
	l := Base()
	l.Records, l.Series, l.Partitions, l.Order, l.Late = 2000, 25, 2, Shuffled, 0.1
	return l
}

// newBench returns a bench whose peers run the program of this test, and the text of its log.
func newBench(tb testing.TB) (*Bench, *strings.Builder) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	log := &strings.Builder{}
	settings := harness.Settings{"FLUSH_INTERVAL": "500ms"} // the default is longer than the rest of the test
	return &Bench{
		Servers: world.servers, Consumer: world.binary, Naive: []string{self, naiveArgument}, Settings: settings, Log: log,
	}, log
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestPeersStoreAll checks that each peer stores every measurement, that the report has all figures that these servers provide,
// and that nothing is left behind.
func TestPeersStoreAll(t *testing.T) {
	ctx := within(t, 3*time.Minute)
	b, log := newBench(t)
	report, err := b.Run(ctx, Plan{Load: small(), Rounds: 1, Patience: time.Minute, Peers: Peers})
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if len(report.Results) != len(Peers) {
		t.Fatalf("%d results of %d peers", len(report.Results), len(Peers))
	}
	for _, r := range report.Results {
		if !r.Complete() || r.Stored != 2000 || r.Wall <= 0 || r.CPU <= 0 {
			t.Errorf("%s: %+v", r.Peer, r)
		}
		if r.Peer == Discard && (r.Size.Documents != 0 || !strings.Contains(r.Note, "inserts")) {
			t.Errorf("%d documents are stored: %s", r.Size.Documents, r.Note)
		}
	}
	table := report.Markdown()
	for _, p := range Peers {
		if !strings.Contains(table, "\n| "+string(p)+" | ") {
			t.Errorf("the table lacks %s:\n%s", p, table)
		}
	}
	left := slices.DeleteFunc(databases(ctx, t), func(name string) bool { return !strings.HasPrefix(name, report.Topic.Name) })
	if report.Topic.Name == "" || len(left) > 0 {
		t.Errorf("of topic %q the databases %v are left", report.Topic.Name, left)
	}
}

// TestMissingMeasurementsAreNoticed checks that a result is incomplete if a bucket disappears before the count.
func TestMissingMeasurementsAreNoticed(t *testing.T) {
	ctx := within(t, 2*time.Minute)
	b, _ := newBench(t)
	l := small()
	l.Records = 100
	topic, err := Fill(ctx, world.servers, l)
	if err != nil {
		t.Fatal(err)
	}
	d := Drain{Peer: Waterwheel, Round: 1}
	again := Drain{Peer: Ceiling, Round: 1}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(b.Remove(ctx, topic, d, again), world.servers.DeleteTopics(ctx, topic.Name, topic.Name+".dlq")); err != nil {
			t.Error(err)
		}
	}()
	if r, err := b.Drain(ctx, topic, d); err != nil || !r.Complete() {
		t.Fatalf("%+v, %v", r, err)
	}
	buckets := client(t).Database(d.Database(topic)).Collection(topic.Name + ".buckets")
	var gone struct {
		Control struct{ Count int64 }
	}
	if err := buckets.FindOneAndDelete(ctx, bson.D{}).Decode(&gone); err != nil || gone.Control.Count < 1 {
		t.Fatalf("deleting a bucket: %+v, %v", gone, err)
	}
	r, err := b.Drain(ctx, topic, again)
	if err != nil || r.Complete() || r.Stored != 100-gone.Control.Count {
		t.Errorf("without a bucket of %d: %+v, %v", gone.Control.Count, r, err)
	}
	first, second := made(ctx, t, d.Database(topic), topic.Name), made(ctx, t, again.Database(topic), topic.Name)
	if first != second {
		t.Errorf("%s inserts into\n%s, not\n%s", Ceiling, second, first)
	}
}

// made describes how the collection of the buckets was created, and its indexes.
func made(ctx context.Context, t *testing.T, database, topic string) string {
	t.Helper()
	db := client(t).Database(database)
	collections, err := db.ListCollectionSpecifications(ctx, bson.D{}) // some servers ignore the filter
	at := slices.IndexFunc(collections, func(c mongo.CollectionSpecification) bool { return c.Name == topic+".buckets" })
	if err != nil || at < 0 {
		t.Fatalf("no buckets among %d collections, %v", len(collections), err)
	}
	indexes, err := db.Collection(topic + ".buckets").Indexes().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var all []bson.Raw
	if err := indexes.All(ctx, &all); err != nil || len(all) < 2 {
		t.Fatalf("%d indexes, %v", len(all), err)
	}
	return strings.ReplaceAll(fmt.Sprint(collections[at].Options, all), database, "")
}

// client returns a connection to the MongoDB server of the tests.
func client(tb testing.TB) *mongo.Client {
	tb.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(world.servers.MongoURI))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Disconnect(context.Background()) })
	return c
}

// databases returns the names of all databases.
func databases(ctx context.Context, t *testing.T) []string {
	t.Helper()
	names, err := client(t).ListDatabaseNames(ctx, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRoundsBeforeAFailureAreReported checks that a turn that takes too long ends the run, and that the earlier figures are kept.
func TestRoundsBeforeAFailureAreReported(t *testing.T) {
	b, log := newBench(t)
	l := small()
	l.Records = 200
	ctx, cancel := context.WithCancel(within(t, 2*time.Minute))
	b.Log = &cancelling{log, "round 2", cancel}
	report, err := b.Run(ctx, Plan{Load: l, Rounds: 3, Patience: time.Minute, Peers: []Peer{Naive, Discard}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v\n%s", err, log)
	}
	if report == nil || len(report.Results) != 2 {
		t.Fatalf("the report is %+v\n%s", report, log)
	}
	left := slices.DeleteFunc(databases(t.Context(), t), func(name string) bool { return !strings.HasPrefix(name, report.Topic.Name) })
	if len(left) > 0 {
		t.Errorf("databases %v are left", left)
	}
}

// cancelling is a log that cancels a context when a line contains these words.
type cancelling struct {
	*strings.Builder

	words  string
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.words) {
		c.cancel()
	}
	return c.Builder.Write(p)
}
