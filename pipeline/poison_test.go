package pipeline

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
	"waterwheel/claim"
	"waterwheel/measurement"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// silent writes no line of an outage.
var silent = NewOutages(slog.New(slog.DiscardHandler), func() Instant { return 0 })

// newTestWorker returns a worker that has claimed its partition and read an empty D, at offset 0.
func newTestWorker(t *testing.T) (*Worker, Moment) {
	t.Helper()
	collection, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta"})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorker(Options{
		Partition: events(3), Group: "g", ClusterID: "cluster", Namespace: "db.events", Decoder: decoder,
		Bucketing: bucketer.Options{Collection: collection}, FlushInterval: time.Second, FlushBytes: 1 << 20, FlushCount: 1000,
		Wait: 3 * time.Second, Grace: 2 * time.Second, Warm: true, NewToken: func() claim.Token { return claim.Token{7} },
		Random: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler),
		Metrics: NewMetrics(prometheus.NewRegistry(), nil), Outages: silent,
	})
	m := Moment{Now: time.Hour, Held: true}
	claimWith(t, w, m, Assigned{TopicID: thisTopic, Committed: 0})
	return w, m
}

// claimWith takes the worker from an assignment to its first fetch.
func claimWith(t *testing.T, w *Worker, m Moment, a Assigned) {
	t.Helper()
	expect[Open](t, w.Handle(m, a))
	expect[CommitNow](t, w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}}))
	sent := expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	if sent.Claim.Start != 0 || sent.Claim.Wait != w.o.Wait {
		t.Fatalf("claimed with %+v", sent.Claim)
	}
	load := expect[LoadStored](t, w.Handle(m, Claimed{Won: true}))
	expect[Fetch](t, w.Handle(m, StoredLoaded{Stored: timeseries.NewPositionSet(load.Start, load.End)}))
}

// expect returns the one action of its type among the actions.
func expect[A Action](t *testing.T, actions []Action) A {
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

func TestPanicOfTheCatalogBecomesALetter(t *testing.T) {
	w, m := newTestWorker(t)
	w.catalog = nil // a bug that any insert meets
	actions := w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 1}})
	expect[Open](t, actions) // all is dropped and read again
	expect[CommitNow](t, w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{7}}, Bounds: record.Bounds{End: 1000}}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	load := expect[LoadStored](t, w.Handle(m, Claimed{Won: true}))
	expect[Fetch](t, w.Handle(m, StoredLoaded{Stored: timeseries.NewPositionSet(load.Start, load.End)}))
	actions = w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good), recordOf(1, good)}, Next: 2, End: 2}})
	letters := expect[ProduceLetters](t, actions).Letters
	if len(letters) != 1 || letters[0].Reason != string(measurement.InternalError) || letters[0].Offset != 0 {
		t.Fatalf("letters are %+v", letters)
	}
	if c, ok := w.Want(); !ok || c.Offset != 0 {
		t.Fatalf("commits %+v before its letter is acknowledged", c)
	}
	w.Handle(m, LettersProduced{})
	if c, _ := w.Want(); c.Offset != 1 || w.Status(m.Now).Poisoned != 1 {
		t.Fatalf("commits %+v, poisoned %d", c, w.Status(m.Now).Poisoned)
	}
}

func TestCatalogThatPanickedIsNotTakenUpAgain(t *testing.T) {
	w, m := newTestWorker(t)
	w.busy.letters = true // the restart waits for their answer
	w.restart(w.again())
	w.Handle(m, Abandoned{})
	if w.catalog != nil {
		t.Fatal("the catalog outlived the tenure")
	}
}
