package pipeline

import (
	"testing"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// TestRestOfTheWindowIsAskedForAgain covers a store that answers for fewer offsets than requested. No record beyond them is
// inserted before the rest is known (E2).
func TestRestOfTheWindowIsAskedForAgain(t *testing.T) {
	w, m := newIdleWorker(t)
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	expect[CommitNow](t, w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true}))
	expect[Fetch](t, w.Handle(m, StoredPositionsLoaded{Stored: timeseries.NewPositionSet(0, 10)}))

	var records []record.Record
	for offset := range int64(16) {
		records = append(records, recordOf(offset, good))
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: records[:1], Next: 1, End: 16}})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	actions := w.Handle(m, Fetched{Batch: record.Batch{Records: records[1:], Next: 16, End: 16}})
	absent[Fetch](t, actions)
	absent[LoadStoredPositions](t, actions) // while the write is in flight
	load := expect[LoadStoredPositions](t, w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}}))
	if pending := w.Status(m.Now).Pending; load.Start != 10 || pending != 9 {
		t.Fatalf("%d measurements were inserted, D is asked for from %d on", pending, load.Start)
	}
	m.Now += w.o.FlushInterval
	absent[SendWrites](t, w.Handle(m, Ticked{})) // while the stored positions are being read
	rest := timeseries.NewPositionSet(10, 20)
	rest.Add(timeseries.Position{Offset: 12})
	if fetch := expect[Fetch](t, w.Handle(m, StoredPositionsLoaded{Stored: rest})); fetch.Offset != 10 {
		t.Fatalf("reads on at %d", fetch.Offset)
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: records[10:], Next: 16, End: 16}})
	if pending := w.Status(m.Now).Pending; pending != 5 { // in addition to the nine in the flush
		t.Errorf("%d measurements were inserted, want 5", pending)
	}
}

// TestReplaysAreCountedAsRecognised checks that a consumer that reads everything again counts as working, although it stores
// nothing.
func TestReplaysAreCountedAsRecognised(t *testing.T) {
	w, m := newIdleWorker(t)
	claimWith(t, w, m, Assigned{TopicID: thisTopic}, timeseries.Position{Offset: 0}, timeseries.Position{Offset: 1})
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{
		recordOf(0, good), recordOf(1, good), recordOf(2, good), {Offset: 3}, // a tombstone
	}, Next: 4, End: 4}})
	if got := w.o.Metrics.Totals(); got != (Totals{Recognised: 2}) {
		t.Errorf("the totals are %+v", got)
	}
}
