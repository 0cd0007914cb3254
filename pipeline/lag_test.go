package pipeline

import (
	"fmt"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// arrives hands a worker the record at an offset of a log with the given end.
func arrives(w *Worker, m Moment, offset, end int64) []Action {
	return w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(offset, good)}, Next: offset + 1, End: end}})
}

// added returns the number of measurements that the writes add.
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
	// From now on the stream is at its end each time, so the interval applies.
	for offset := int64(3); offset < 10; offset++ {
		m.Now += w.o.FlushInterval / 20
		absent[SendWrites](t, arrives(w, m, offset, offset+1))
	}
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
}

func TestAFetchThatIsFullNowAndThenIsNoLag(t *testing.T) {
	w, m := newTestWorker(t)
	absent[SendWrites](t, arrives(w, m, 0, 1)) // there is no backlog
	absent[SendWrites](t, arrives(w, m, 1, 3))
	m.Now += w.o.FlushInterval / (shortLag + 1)
	absent[SendWrites](t, arrives(w, m, 2, 3))
}

// TestWhatCameBeforeTheClaimIsWrittenAtOnce checks records that arrived during the wait for a former owner. One fetch returns all
// of them.
func TestWhatCameBeforeTheClaimIsWrittenAtOnce(t *testing.T) {
	w, m := newIdleWorker(t)
	w.Handle(m, Assigned{TopicID: thisTopic})
	w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1}})
	w.Handle(m, Committed{SentAt: m.Now})
	w.Handle(m, Claimed{Won: true})
	w.Handle(m, StoredPositionsLoaded{Stored: timeseries.NewPositionSet(0, 1000)})
	if n := added(expect[SendWrites](t, arrives(w, m, 0, 1)).Writes); n != 1 {
		t.Fatalf("%d measurements are written", n)
	}
}

// TestTheEndOfABacklogIsWrittenAtOnce checks this for a backlog that is read quickly, as after a restart.
func TestTheEndOfABacklogIsWrittenAtOnce(t *testing.T) {
	w, m := newTestWorker(t)
	absent[SendWrites](t, arrives(w, m, 0, 2))
	if n := added(expect[SendWrites](t, arrives(w, m, 1, 2)).Writes); n != 2 {
		t.Fatalf("%d measurements are written", n)
	}
}

// TestWhatIsLeftOfAFetchIsNoLag checks that a piece of a fetch is not taken for the end of the fetch.
func TestWhatIsLeftOfAFetchIsNoLag(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 2, More: true}})
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

// TestTheEndOfALagWaitsForLookups checks that measurements parked at the end of a lag are written with the rest.
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

// TestALagOfWhatIsStoredEndsWithoutAWrite checks that the end of a lag of stored measurements does not flush the first one after
// it alone.
func TestALagOfWhatIsStoredEndsWithoutAWrite(t *testing.T) {
	w, m := newIdleWorker(t)
	claimWith(t, w, m, Assigned{TopicID: thisTopic}, timeseries.Position{Offset: 0}, timeseries.Position{Offset: 1})
	arrives(w, m, 0, 2)
	m.Now += w.o.FlushInterval / 2
	absent[SendWrites](t, arrives(w, m, 1, 2))
	m.Now += time.Second
	absent[SendWrites](t, arrives(w, m, 2, 3))
}

// backlog hands a worker measurements of a log that continues, with series series in turns, until the worker writes. It returns
// the number of measurements at that moment, or zero if the worker does not write.
func backlog(t *testing.T, series int, flushBytes int64) (measurements int, bytes int64) {
	t.Helper()
	w, m := newTestWorker(t, func(o *Options) {
		o.FlushBytes, o.FlushCount = flushBytes, 1<<20
		o.Bucketing.Limits = timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}
	})
	const end = 3000
	for offset := range int64(end - 1) {
		_, bytes = w.catalog.Pending()
		r := recordOf(offset, fmt.Sprintf(`{"time":1767000000000,"meta":%d,"x":1}`, offset%int64(series)))
		for _, a := range w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{r}, Next: offset + 1, End: end}}) {
			if s, ok := a.(SendWrites); ok {
				return added(s.Writes), bytes
			}
		}
	}
	return 0, bytes
}

// TestDenseBucketsAreWrittenWhileBehind checks that dense buckets are written before the interval is over, and sparse ones are
// not.
func TestDenseBucketsAreWrittenWhileBehind(t *testing.T) {
	const bytes = 32 << 10
	one, pending := backlog(t, 1, bytes*densePart)
	if one == 0 || pending > bytes || pending < bytes*9/10 {
		t.Errorf("%d measurements of one series, after %d bytes, are written: want them at %d", one, pending, bytes)
	}
	if few, pending := backlog(t, 8, bytes*densePart); few == 0 || pending < 8*denseBucket*9/10 {
		t.Errorf("%d measurements of eight series, after %d bytes, are written: want them at %d", few, pending, 8*denseBucket)
	}
	if many, pending := backlog(t, 500, bytes*densePart); many != 0 || pending < bytes {
		t.Errorf("%d measurements of 500 series are written, of %d bytes", many, pending)
	}
}
