package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/events"
)

var storageRecords = flag.Int("storage.records", 100_000, "of TestStorage")

// TestStorage checks compression. If the server lets a collection choose its compressor, buckets are compressed with zstd, which
// needs less disk than snappy. Otherwise set-up reports that in one line. On WiredTiger the test prints the size of a measurement
// as data, on disk and in indexes, for either compressor, clustered by _id or not.
func TestStorage(t *testing.T) {
	t.Parallel()
	s := newStream(t, 4).inBuckets()
	db := s.readable()
	ctx := within(t, 6*time.Minute)
	probe := create(ctx, db, "probe", zstd)
	code, _, stderr := s.command(nil, "init")
	if said := strings.Contains(stderr, "does not let a collection choose zstd"); code != 0 || said == keepsEngine(ctx, t, db, probe) {
		t.Errorf("exit code %d; the server keeps the choice: %v; init said:\n%s", code, !said, stderr)
	}
	if compressor(ctx, db, probe) != "zstd" {
		t.Skip("this MongoDB does not tell how WiredTiger keeps a collection: no sizes to compare")
	}

	load := bench.Base()
	load.Records, load.Series = *storageRecords, max(1, *storageRecords/100)
	maker := bench.NewMaker(load)
	for chunk := range slices.Chunk(slices.Collect(upTo(load.Records)), 5000) {
		var made []events.Event
		for _, i := range chunk {
			made = append(made, events.Event{Key: fmt.Append(nil, maker.Series(i)), Value: maker.Append(nil, i)})
		}
		if err := s.producer.Send(within(t, time.Minute), made...); err != nil {
			t.Fatal(err)
		}
	}
	c := s.start()
	s.awaitCommitted(c, 5*time.Minute)
	s.terminate(c)

	var shown []struct {
		Compressor string `json:"compressor"`
	}
	if _, stdout, _ := s.command(nil, "collection", "show", "--output", "json"); json.Unmarshal([]byte(stdout), &shown) != nil ||
		len(shown) != 1 || shown[0].Compressor != "zstd" {
		t.Errorf("collection show: %s", stdout)
	}
	sizes := map[string]storedSize{"as stored": sizeOf(ctx, t, s.collection(".buckets"))}
	clustered := bson.D{{Key: "clusteredIndex", Value: bson.D{{Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "unique", Value: true}}}}
	for name, o := range map[string]bson.D{
		"snappy": engine("snappy"), "zstd": zstd,
		"snappy, clustered": append(engine("snappy"), clustered...), "zstd, clustered": append(slices.Clone(zstd), clustered...),
	} {
		into := create(ctx, db, "copy-"+strings.ReplaceAll(name, ", ", "-"), o)
		if into == nil {
			t.Logf("%s: this MongoDB refuses such a collection", name)
			continue
		}
		s.copyBuckets(ctx, into)
		sizes[name] = sizeOf(ctx, t, into)
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(load.Records) }
	for name, z := range sizes {
		t.Logf("%-18s %6.2f B data, %5.2f B on disk, %4.2f B in indexes a measurement; %v", name, each(z.Data), each(z.Disk), each(z.Indexes), z.Each)
	}
	if sizes["zstd"].Disk >= sizes["snappy"].Disk {
		t.Errorf("zstd takes %d bytes, snappy %d", sizes["zstd"].Disk, sizes["snappy"].Disk)
	}
}

// engine returns the options of a collection with this compressor.
func engine(compressor string) bson.D {
	words := bson.D{{Key: "configString", Value: "block_compressor=" + compressor}}
	return bson.D{{Key: "storageEngine", Value: bson.D{{Key: "wiredTiger", Value: words}}}}
}

var zstd = engine("zstd")

// upTo returns the numbers below n.
func upTo(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// create creates a collection. Nil means that the server refuses it.
func create(ctx context.Context, db *mongo.Database, name string, o bson.D) *mongo.Collection {
	if db.RunCommand(ctx, append(bson.D{{Key: "create", Value: name}}, o...)).Err() != nil {
		return nil
	}
	return db.Collection(name)
}

// keepsEngine reports whether the server lists the options with which the collection was created.
func keepsEngine(ctx context.Context, t *testing.T, db *mongo.Database, c *mongo.Collection) bool {
	t.Helper()
	if c == nil {
		return false
	}
	listed, err := db.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: c.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	return len(listed) == 1 && listed[0].Options.Lookup("storageEngine").Type == bson.TypeEmbeddedDocument
}

// compressor returns a collection's WiredTiger compressor, as the server reports it. Empty means unknown, or a cluster's router.
func compressor(ctx context.Context, db *mongo.Database, c *mongo.Collection) string {
	if c == nil {
		return ""
	}
	stats, _ := db.RunCommand(ctx, bson.D{{Key: "collStats", Value: c.Name()}}).Raw()
	words, _ := stats.Lookup("wiredTiger", "creationString").StringValueOK()
	if match := regexp.MustCompile(`(?:^|,)block_compressor=(\w+)`).FindStringSubmatch(words); match != nil {
		return match[1]
	}
	return ""
}

// copyBuckets copies the indexes and the documents of the buckets to a collection.
func (s *stream) copyBuckets(ctx context.Context, into *mongo.Collection) {
	s.t.Helper()
	from := s.collection(".buckets")
	specs, err := from.Indexes().ListSpecifications(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, spec := range specs {
		if spec.Name == "_id_" {
			continue
		}
		if _, err := into.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: spec.KeysDocument}); err != nil {
			s.t.Fatal(err)
		}
	}
	cursor, err := from.Find(ctx, bson.D{}, options.Find().SetBatchSize(500))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cursor.Close(ctx)
	var batch []bson.Raw
	for more := true; more; {
		if more = cursor.Next(ctx); more {
			batch = append(batch, slices.Clone(cursor.Current))
		}
		if len(batch) == 500 || !more && len(batch) > 0 {
			if _, err := into.InsertMany(ctx, batch, options.InsertMany().SetOrdered(false)); err != nil {
				s.t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := cursor.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// storedSize is the size of a collection in bytes.
type storedSize struct {
	Data    int64            `bson:"size"`
	Disk    int64            `bson:"storageSize"`
	Indexes int64            `bson:"totalIndexSize"`
	Each    map[string]int64 `bson:"indexSizes"`
}

// sizeOf returns the sizes after the server has flushed its data to the disk.
func sizeOf(ctx context.Context, t *testing.T, c *mongo.Collection) (z storedSize) {
	t.Helper()
	if err := c.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err(); err != nil {
		t.Logf("sizes may be those of the last checkpoint: %v", err)
	}
	if err := c.Database().RunCommand(ctx, bson.D{{Key: "collStats", Value: c.Name()}}).Decode(&z); err != nil {
		t.Fatal(err)
	}
	return z
}
