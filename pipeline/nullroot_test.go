package pipeline

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// TestNullRootIsSkippedAsATombstone checks that a deleted row is neither a measurement nor a letter, and may be committed.
func TestNullRootIsSkippedAsATombstone(t *testing.T) {
	w, m := newTestWorker(t, func(o *Options) {
		decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta", Root: "after"})
		if err != nil {
			t.Fatal(err)
		}
		o.Decoder = decoder
	})
	records := []record.Record{
		{Offset: 0, Timestamp: 1_700_000_000_000, Value: []byte(`{"after":null,"op":"d"}`)},
		{Offset: 1, Timestamp: 1_700_000_000_000},
		{Offset: 2, Timestamp: 1_700_000_000_000, Value: []byte(`{"after":null,"op":"d"}`)},
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: records, Next: 3, End: 3}})
	if got := testutil.ToFloat64(w.metrics.counter(w.metrics.skips, "tombstone")); got != 3 {
		t.Errorf("%v tombstones", got)
	}
	if done := w.offsetTracker.next; done != 3 {
		t.Errorf("read up to %d", done)
	}
	if n := len(w.deadLetters.waiting); n != 0 {
		t.Errorf("%d letters", n)
	}
}

// TestSkippedEventsAreCounted checks that they are neither measurements nor letters nor tombstones, and may be committed.
func TestSkippedEventsAreCounted(t *testing.T) {
	w, m := newTestWorker(t, func(o *Options) {
		decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta", List: []string{"list"}, Skip: []string{"type=join", "x"}})
		if err != nil {
			t.Fatal(err)
		}
		o.Decoder = decoder
	})
	records := []record.Record{
		{Offset: 0, Timestamp: 1_700_000_000_000, Value: []byte(`{"type":"join","list":[{},{}]}`)},
		{Offset: 1, Timestamp: 1_700_000_000_000, Value: []byte(`{"list":[]}`)},
		{Offset: 2, Timestamp: 1_700_000_000_000, Value: []byte(`{"meta":1,"list":[{"x":1},{"time":1700000000}]}`)},
		{Offset: 3, Timestamp: 1_700_000_000_000},
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: records, Next: 4, End: 4}})
	if got := testutil.ToFloat64(w.metrics.counter(w.metrics.skips, "event_skip")); got != 4 {
		t.Errorf("%v events are skipped, want 4", got)
	}
	if got := testutil.ToFloat64(w.metrics.counter(w.metrics.skips, "tombstone")); got != 1 {
		t.Errorf("%v tombstones", got)
	}
	if n := len(w.deadLetters.waiting); n != 0 || w.offsetTracker.next != 4 {
		t.Errorf("%d letters, read up to %d", n, w.offsetTracker.next)
	}
}
