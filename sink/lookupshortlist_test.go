package sink_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/sink"
)

// listed is a Collection that returns its documents for any query, each in memory that the next one overwrites.
type listed struct {
	mongodb.Editable
	documents []bson.Raw
}

func (l *listed) Find(_ context.Context, _ mongodb.Query, each func(bson.Raw) error) error {
	var current []byte
	for _, d := range l.documents {
		current = append(current[:0], d...)
		if err := each(current); err != nil {
			return err
		}
	}
	return nil
}

// leftBehind is a bucket as a query returns it. n is its number within its series.
type leftBehind struct {
	n       int
	minTime int64
	count   int32
	size    int32
}

func (l leftBehind) id() bson.ObjectID { return bson.ObjectID{byte(l.n >> 8), byte(l.n)} }

func (l leftBehind) document(series string) bson.Raw {
	return marshal(bson.D{
		{Key: "_id", Value: l.id()},
		{Key: "control", Value: bson.D{
			{Key: "min", Value: bson.D{{Key: "time", Value: bson.DateTime(l.minTime)}}},
			{Key: "count", Value: l.count},
			{Key: "size", Value: l.size},
		}},
		{Key: "meta", Value: series},
	})
}

// found looks up buckets among some documents.
func found(t *testing.T, documents []bson.Raw, lookups ...bucketer.Lookup) [][]bson.ObjectID {
	t.Helper()
	store := sink.NewStore(collection.Ready{Ports: collection.Ports{Buckets: &listed{documents: documents}}, Options: definition},
		sink.StoreOptions{MaxCount: 1000, WriteTimeout: time.Second})
	answers, err := store.Partition(source, "cluster", "group", "host").Find(t.Context(), lookups)
	if err != nil {
		t.Fatal(err)
	}
	all := make([][]bson.ObjectID, len(answers))
	for i, a := range answers {
		for _, c := range a.Candidates {
			all[i] = append(all[i], c.Document.Lookup("_id").ObjectID())
		}
	}
	return all
}

// TestFindKeepsTheBestFew checks that the memory of a look-up does not grow with the number of buckets. It keeps the buckets that
// the catalog would try first.
func TestFindKeepsTheBestFew(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		var left []leftBehind
		var documents []bson.Raw
		for n := range random.IntN(300) {
			l := leftBehind{
				n: n, minTime: minute - 60_000*random.Int64N(70), count: random.Int32N(20) - 1, size: 100 * random.Int32N(10),
			}
			left = append(left, l)
			documents = append(documents, l.document("a"))
		}
		wanted := lookupOf("a", minute-120_000)
		wanted.Size = 500
		fits := slices.DeleteFunc(slices.Clone(left), func(l leftBehind) bool {
			return l.minTime > wanted.Time || l.minTime <= wanted.Time-3_600_000 || l.size >= 500 || l.count < 1
		})
		slices.SortStableFunc(fits, func(a, b leftBehind) int {
			return cmp.Or(cmp.Compare(b.minTime, a.minTime), cmp.Compare(a.count, b.count))
		})
		var want []bson.ObjectID
		for _, l := range fits[:min(4, len(fits))] {
			want = append(want, l.id())
		}
		if diff := gocmp.Diff([][]bson.ObjectID{want, nil, want}, found(t, documents, wanted, lookupOf("b", minute), wanted)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestFindOfAnyBucketByID(t *testing.T) {
	var documents []bson.Raw
	for n := range 10 {
		documents = append(documents, leftBehind{n: n, minTime: minute, count: 1, size: 1000}.document("a"))
	}
	wanted := leftBehind{n: 7}.id()
	l := lookupOf("a", minute)
	l.ID, l.Size = wanted, 10
	if diff := gocmp.Diff([][]bson.ObjectID{{wanted}}, found(t, documents, l)); diff != "" {
		t.Error(diff)
	}
}

// TestFindBoundsWhatItHolds has buckets that are large without their columns, and that many look-ups want. Find must not hold
// more than its memory limit. Look-ups ahead lose their answer first, and one look-up is always answered.
func TestFindBoundsWhatItHolds(t *testing.T) {
	const hour = 3_600_000
	var documents []bson.Raw
	var lookups []bucketer.Lookup
	for n := range 200 {
		d := leftBehind{n: n, minTime: minute + int64(n)*60_000, count: 1}.document("a")
		large := bson.D{{Key: "_id", Value: d.Lookup("_id")}, {Key: "control", Value: d.Lookup("control")}, {Key: "meta", Value: "a"}}
		documents = append(documents, marshal(append(large, bson.E{Key: "large", Value: make([]byte, 100<<10)})))
		l := lookupOf("a", minute+hour/2+int64(n)*60_000)
		l.Ahead = n != 150
		lookups = append(lookups, l)
	}
	store := sink.NewStore(collection.Ready{Ports: collection.Ports{Buckets: &listed{documents: documents}}, Options: definition},
		sink.StoreOptions{MaxCount: 1000, WriteTimeout: time.Second})
	answers, err := store.Partition(source, "cluster", "group", "host").Find(t.Context(), lookups)
	if err != nil {
		t.Fatal(err)
	}
	held, due := map[*byte]int{}, 0
	for _, a := range answers {
		if !a.Lookup.Ahead {
			due++
		}
		for _, c := range a.Candidates {
			held[&c.Document[0]] = len(c.Document)
		}
	}
	total := 0
	for _, n := range held {
		total += n
	}
	if total > 1<<20+4*110<<10 || due != 1 {
		t.Errorf("%d answers hold %d bytes, and the look-up that is not ahead has %d", len(answers), total, due)
	}
	if len(answers) == 200 {
		t.Error("no look-up is left without an answer")
	}
}
