package pipeline

import (
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// arrives hands a worker the record at an offset of a log with this end.
func arrives(w *Worker, m Moment, offset, end int64) []Action {
	return w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(offset, good)}, Next: offset + 1, End: end}})
}

// added is how many measurements the writes add.
func added(writes []*bucketer.Write) (n int) {
	for _, x := range writes {
		n += int(x.Added)
	}
	return n
}

func TestTheEndOfALagIsWrittenAtOnce(t *testing.T) {
	w, m := newTestWorker(t)
	absent[SendWrites](t, arrives(w, m, 0, 3))
	absent[SendWrites](t, arrives(w, m, 1, 3))
	m.Now += w.o.FlushInterval / 2
	writes := expect[SendWrites](t, arrives(w, m, 2, 3)).Writes
	if n := added(writes); n != 3 {
		t.Fatalf("%d measurements are written", n)
	}
	w.Handle(m, WritesSent{Sent: make([]bucketer.Sent, len(writes))})
	// From now on the stream is at its end each time: the interval rules.
	for offset := int64(3); offset < 10; offset++ {
		m.Now += w.o.FlushInterval / 20
		absent[SendWrites](t, arrives(w, m, offset, offset+1))
	}
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
}

func TestAFetchThatIsFullNowAndThenIsNoLag(t *testing.T) {
	w, m := newTestWorker(t)
	absent[SendWrites](t, arrives(w, m, 0, 2))
	m.Now += w.o.FlushInterval / (shortLag + 1)
	absent[SendWrites](t, arrives(w, m, 1, 2))
}

// A piece of what one fetch has brought is not the end of it.
func TestWhatIsLeftOfAFetchIsNoLag(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 2, Left: 100}})
	m.Now += w.o.FlushInterval / 2
	absent[SendWrites](t, arrives(w, m, 1, 2))
}

func TestTheEndOfALagWaitsForTheFlushUnderWay(t *testing.T) {
	w, m := newTestWorker(t)
	arrives(w, m, 0, 3)
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	absent[SendWrites](t, arrives(w, m, 1, 3))
	absent[SendWrites](t, arrives(w, m, 2, 3))
	if n := added(expect[SendWrites](t, w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})).Writes); n != 2 {
		t.Fatalf("%d measurements are written", n)
	}
}

// What is parked at the end of a lag, as after a restart, is written with the rest.
func TestTheEndOfALagWaitsForLookups(t *testing.T) {
	w, m := newReopeningWorker(t)
	first := expect[FindBuckets](t, arrives(w, m, 0, 3)).Lookups
	m.Now += w.o.FlushInterval / 2
	absent[SendWrites](t, w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{otherSeries(1), recordOf(2, good)}, Next: 3, End: 3}}))
	actions := w.Handle(m, BucketsFound{Answers: answersTo(first)})
	absent[SendWrites](t, actions)
	second := expect[FindBuckets](t, actions).Lookups
	if n := added(expect[SendWrites](t, w.Handle(m, BucketsFound{Answers: answersTo(second)})).Writes); n != 3 {
		t.Fatalf("%d measurements are written", n)
	}
}

// The end of a lag that was stored before is no reason to write the first measurement after it alone.
func TestALagOfWhatIsStoredEndsWithoutAWrite(t *testing.T) {
	w, m := newIdleWorker(t)
	claimWith(t, w, m, Assigned{TopicID: thisTopic, Committed: 0}, timeseries.Position{Offset: 0}, timeseries.Position{Offset: 1})
	arrives(w, m, 0, 2)
	m.Now += w.o.FlushInterval / 2
	absent[SendWrites](t, arrives(w, m, 1, 2))
	m.Now += time.Second
	absent[SendWrites](t, arrives(w, m, 2, 3))
}
