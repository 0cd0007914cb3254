package pipeline

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// silent logs nothing about outages.
var silent = NewOutages(slog.New(slog.DiscardHandler), func() Instant { return 0 })

// newTestWorker returns a worker that has claimed its partition and read no stored positions, at offset 0.
func newTestWorker(t *testing.T, changes ...func(*Options)) (*Worker, Moment) {
	t.Helper()
	w, m := newIdleWorker(t, changes...)
	claimWith(t, w, m, Assigned{TopicID: thisTopic})
	return w, m
}

// newIdleWorker returns a worker without a term. changes change its options.
func newIdleWorker(t testing.TB, changes ...func(*Options)) (*Worker, Moment) {
	t.Helper()
	collection, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta"})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Partition: events(3), Group: "g", ClusterID: "cluster", Namespace: "db.events", Decoder: decoder,
		Bucketing: bucketer.Options{Collection: collection}, FlushInterval: time.Second, FlushBytes: 1 << 20, FlushCount: 1000,
		Wait: 3 * time.Second, WriteGrace: 2 * time.Second, Warm: true, NewToken: func() claim.Token { return claim.Token{7} },
		Random: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(prometheus.NewRegistry()), Outages: silent,
	}
	for _, change := range changes {
		change(&o)
	}
	return NewWorker(o), Moment{Now: time.Hour, Held: true}
}

// stopOnBad removes the dead-letter topic.
func stopOnBad(o *Options) { o.StopOnBad = true }

// claimWith takes the worker from an assignment to its first fetch, with the stored positions given.
func claimWith(t testing.TB, w *Worker, m Moment, a Assigned, stored ...timeseries.Position) {
	t.Helper()
	expect[Open](t, w.Handle(m, a))
	expect[CommitNow](t, w.Handle(m, ClaimRead{}))
	sent := expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	if sent.Claim.Start != 0 || sent.Claim.Wait != w.o.Wait {
		t.Fatalf("claimed with %+v", sent.Claim)
	}
	load := expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true}))
	set := timeseries.NewPositionSet(load.Start, load.End)
	for _, p := range stored {
		set.Add(p)
	}
	expect[Fetch](t, w.Handle(m, StoredPositionsLoaded{Stored: set}))
}

// expect returns the only action of its type among the actions.
func expect[A Action](t testing.TB, actions []Action) A {
	t.Helper()
	for _, a := range actions {
		if found, ok := a.(A); ok {
			return found
		}
	}
	var none A
	t.Fatalf("no %T among %#v", none, actions)
	return none
}

func recordOf(offset int64, value string) record.Record {
	return record.Record{Offset: offset, Timestamp: 1_767_000_000_000, Value: []byte(value)}
}

const good = `{"time":1767000000000,"meta":"a","x":1}`

// brokenOnce makes the first catalog panic at the insertion of a measurement.
func brokenOnce(o *Options) {
	catalogs := 0
	o.newCatalog = func(bucketing bucketer.Options) *bucketer.Catalog {
		if catalogs++; catalogs == 1 {
			return &bucketer.Catalog{}
		}
		return bucketer.New(bucketing)
	}
}

func TestPanicOfTheCatalogBecomesALetter(t *testing.T) {
	w, m := newTestWorker(t, brokenOnce)
	actions := w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 1}})
	expect[Open](t, actions) // everything is dropped and read again
	expect[CommitNow](t, w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{7}}, Bounds: record.Bounds{End: 1000}}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	load := expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true}))
	expect[Fetch](t, w.Handle(m, StoredPositionsLoaded{Stored: timeseries.NewPositionSet(load.Start, load.End)}))
	actions = w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good), recordOf(1, good)}, Next: 2, End: 2}})
	letters := expect[ProduceDeadLetters](t, actions).DeadLetters
	if len(letters) != 1 || letters[0].Reason != string(measurement.InternalError) || letters[0].Offset != 0 {
		t.Fatalf("letters are %+v", letters)
	}
	wants(t, w, 0) // before its letter is acknowledged
	w.Handle(m, DeadLettersProduced{})
	wants(t, w, 1)
	if n := w.Status(m.Now).PoisonRecords; n != 1 {
		t.Fatalf("%d records made the program panic", n)
	}
}

func TestCatalogThatPanickedIsNotTakenUpAgain(t *testing.T) {
	w, m := newTestWorker(t, brokenOnce)
	expect[ProduceDeadLetters](t, w.Handle(m, Fetched{Batch: bads(0, 1)}))
	batch := record.Batch{Records: []record.Record{recordOf(1, good)}, Next: 2, End: 2}
	absent[Open](t, w.Handle(m, Fetched{Batch: batch})) // it waits for the answer about the letter
	w.Handle(m, Abandoned{})
	if n := w.Bytes(); n > 0 {
		t.Fatalf("%d bytes of the catalog outlived the term", n)
	}
}
