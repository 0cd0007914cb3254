package pipeline

import (
	"testing"

	"waterwheel/record"
	"waterwheel/timeseries"
)

// TestRestOfTheWindowIsAskedForAgain: the store may answer for fewer offsets than it was asked for, and no record beyond
// them is inserted before the rest is known (E2).
func TestRestOfTheWindowIsAskedForAgain(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Abandoned{})
	m.Now += w.o.Wait
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic, Committed: 0}))
	expect[CommitNow](t, w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	expect[LoadStored](t, w.Handle(m, Claimed{Won: true}))
	expect[Fetch](t, w.Handle(m, StoredLoaded{Stored: timeseries.NewPositionSet(0, 10)}))

	var records []record.Record
	for offset := range int64(16) {
		records = append(records, recordOf(offset, good))
	}
	actions := w.Handle(m, Fetched{Batch: record.Batch{Records: records, Next: 16, End: 16}})
	absent[Fetch](t, actions)
	load := expect[LoadStored](t, actions)
	if pending, _ := w.catalog.Pending(); load.Start != 10 || pending != 10 {
		t.Fatalf("%d measurements were inserted, D is asked for from %d on", pending, load.Start)
	}
	w.flush = &flush{acting: []int{0}} // a write is under way
	if again := w.advanceStream(m, nil); len(again) != 0 {
		t.Fatalf("%+v beside the reading of D", again)
	}
	w.flush = nil
	rest := timeseries.NewPositionSet(10, 20)
	rest.Add(timeseries.Position{Offset: 12})
	if fetch := expect[Fetch](t, w.Handle(m, StoredLoaded{Stored: rest})); fetch.Offset != 10 {
		t.Fatalf("reads on at %d", fetch.Offset)
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: records[10:], Next: 16, End: 16}})
	if pending, _ := w.catalog.Pending(); pending != 15 {
		t.Errorf("%d measurements were inserted, want 15", pending)
	}
}
