package pipeline

import (
	"slices"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// fill inserts n measurements of new series, and stores them if store is set.
func fill(t *testing.T, w *Worker, m Moment, n int64, store bool) {
	t.Helper()
	l := fakeLog{begin: time.UnixMilli(1_772_366_400_000), rate: 1000, total: 1 << 40, most: int(n), series: 1 << 40}
	b, err := l.Take(w.Status(m.Now).Position, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	actions := w.Handle(m, Fetched{Batch: b})
	if i := slices.IndexFunc(actions, func(a Action) bool { _, ok := a.(FindBuckets); return ok }); i >= 0 {
		w.Handle(m, BucketsFound{Answers: answersTo(actions[i].(FindBuckets).Lookups)})
	}
	if store {
		m.Now += w.o.FlushInterval
		sent := expect[SendWrites](t, w.Handle(m, Ticked{}))
		w.Handle(m, WritesSent{Sent: make([]bucketer.Sent, len(sent.Writes))})
	}
}

// TestMemoryIsGivenBackInFourSteps checks that each step runs only if the steps before it do not suffice.
func TestMemoryIsGivenBackInFourSteps(t *testing.T) {
	w, m := newTestWorker(t, roomy, func(o *Options) { o.Bucketing.Reopen, o.FlushCount = true, 1<<30 })
	fill(t, w, m, 500, true)
	m.Now += time.Minute
	fill(t, w, m, 200, false) // pending

	archives, drops := false, false
	for m.Target = w.Bytes(); ; m.Target -= m.Target / 50 {
		actions := w.Handle(m, Fetched{Batch: record.Batch{Next: 700, End: 1 << 40}}) // there is more to read
		stats := w.Status(m.Now).Buckets
		idle, dropped := stats.OpenBuckets-200, stats.BucketsArchivedDueToMemoryThreshold-stats.ArchivedBuckets
		flushes := slices.ContainsFunc(actions, func(a Action) bool { _, ok := a.(SendWrites); return ok })
		fetches := slices.ContainsFunc(actions, func(a Action) bool { _, ok := a.(Fetch); return ok })
		archives, drops = archives || stats.ArchivedBuckets > 0 && dropped == 0, drops || dropped > 0 && !flushes
		if dropped > 0 && idle > 0 || flushes && stats.ArchivedBuckets > 0 || flushes == fetches {
			t.Fatalf("for %d bytes: %d idle buckets, %d archived, %d dropped, flushes: %v, fetches: %v",
				m.Target, idle, stats.ArchivedBuckets, dropped, flushes, fetches)
		}
		if flushes {
			break
		}
	}
	if !archives || !drops {
		t.Errorf("a step was left out: archives %v, drops archived ones %v", archives, drops)
	}
}

func TestFetchGoesOnWhenNothingThatWaitsHoldsTheMemory(t *testing.T) {
	w, m := newIdleWorker(t)
	claimWith(t, w, m, Assigned{TopicID: thisTopic}, timeseries.Position{Offset: 1000})
	m.Target, m.Full = 1, true
	actions := w.Handle(m, Fetched{Batch: record.Batch{Next: 0, End: 9}})
	expect[Fetch](t, actions)
	actions = w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 9}})
	expect[SendWrites](t, actions)
	absent[Fetch](t, actions)
	expect[Fetch](t, w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}}))
}
