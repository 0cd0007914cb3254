package pipeline

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/record"
)

// TestOutageOfWritesLastsThoughReadsAreAnswered covers a full disk or a lost privilege, which stop only writes. Reads that
// succeed in between neither end the outage nor shorten the retries.
func TestOutageOfWritesLastsThoughReadsAreAnswered(t *testing.T) {
	w, m := flushing(t)
	since := m.Now
	for end := m.Now + time.Minute; m.Now < end; {
		w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
		if failure := w.Status(m.Now).Failures[MongoDB]; failure == nil || failure.Since != since {
			t.Fatalf("after %v the trouble is %+v, want one since %v", m.Now-since, failure, since)
		}
		if m.Now += longestDelay / 2; m.Now > since+10*longestDelay { // after so many failures each wait is at least half of longestDelay
			m.Now--
			absent[ResolveWrites](t, w.Handle(m, Ticked{}))
		}
		m.Now += longestDelay / 2
		expect[ResolveWrites](t, w.Handle(m, Ticked{}))
		expect[SendWrites](t, w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}}))
		if w.Status(m.Now).Failures[MongoDB] == nil {
			t.Fatal("what is read back ends the outage")
		}
	}
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	if w.Status(m.Now).Failures[MongoDB] != nil {
		t.Error("the outage outlasts a write that was acknowledged")
	}
	wants(t, w, 1)
}

// TestUpdateThatIsNeverExecutedBlamesNobody checks the log. It distinguishes a bucket that another writer changed from a MongoDB
// that accepts no updates.
func TestUpdateThatIsNeverExecutedBlamesNobody(t *testing.T) {
	var log bytes.Buffer
	w, m := newTestWorker(t, roomy, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 1}})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(1, good)}, Next: 2, End: 2}})
	m.Now += w.o.FlushInterval
	if sent := expect[SendWrites](t, w.Handle(m, Ticked{})); sent.Writes[0].Kind != bucketer.Update {
		t.Fatalf("sent %+v, want an update", sent.Writes[0])
	}
	for range notAppliedLimit {
		w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
		m.Now += longestDelay
		expect[ResolveWrites](t, w.Handle(m, Ticked{}))
		w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}})
	}
	m.Now += w.o.WriteGrace
	expect[AskPositions](t, w.Handle(m, Ticked{}))
	w.Handle(m, PositionsAsked{})
	if says := log.String(); !strings.Contains(says, "did not execute an update") || strings.Contains(says, "another writer") {
		t.Errorf("the log says:\n%s", says)
	}
	wants(t, w, 1)
}
