package sink_test

import (
	"sync/atomic"
	"testing"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb/mongodbtest"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// env is a real server with a database of its own, and the settings of its time series.
type env struct {
	*mongodbtest.Real
	as collection.Settings
}

func connect(t testing.TB) *env { return &env{Real: mongodbtest.Connect(t)} }

var (
	definition = timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: timeseries.Seconds}
	source     = timeseries.Source{Topic: "events", TopicID: [16]byte{7, 1, 2}, Partition: 3}
)

func (e *env) setup(t testing.TB) *sink.Store {
	t.Helper()
	ready, err := collection.Of(e.Database, "events").Setup(t.Context(), definition, e.as)
	if err != nil {
		t.Fatal(err)
	}
	return e.store(ready)
}

// store returns a Store of a time series that is set up.
func (e *env) store(ready collection.Ready) *sink.Store {
	return sink.NewStore(ready, sink.StoreOptions{MaxCount: 1000, WriteTimeout: e.WriteTimeout(), Logger: e.Log()})
}

// claimed returns a partition under a claim of ours.
func (e *env) claimed(t testing.TB, s *sink.Store) *sink.Partition {
	t.Helper()
	p := s.Partition(source, "cluster", "group", "host")
	claimWith(t, p)
	t.Cleanup(p.Close)
	return p
}

var tokens atomic.Int32

func token() [16]byte { n := tokens.Add(1); return [16]byte{0xcc, byte(n >> 8), byte(n)} }

func claimWith(t testing.TB, p *sink.Partition) [16]byte {
	t.Helper()
	seen, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := token()
	won, err := p.Claim(t.Context(), seen, claim.Claim{Token: id, Start: 0, Wait: 30 * time.Second})
	if err != nil || !won {
		t.Fatalf("claim: won %v, error %v", won, err)
	}
	return id
}
