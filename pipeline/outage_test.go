package pipeline

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/record"
	"waterwheel/timeseries"
)

// TestOutageOfWritesLastsThoughReadsAreAnswered: a full disk or a lost privilege stops writes alone. That they are read
// back in between neither ends the outage nor makes the attempts come faster.
func TestOutageOfWritesLastsThoughReadsAreAnswered(t *testing.T) {
	w, m := flushing(t)
	since, attempts := m.Now, 0
	for end := m.Now + time.Minute; m.Now < end; attempts++ {
		w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
		if trouble := w.troubles[MongoDB]; trouble == nil || trouble.Since != since {
			t.Fatalf("after %d attempts the trouble is %+v, want one since %v", attempts, trouble, since)
		}
		m.Now += longestDelay
		expect[ResolveWrites](t, w.Handle(m, Ticked{}))
		expect[SendWrites](t, w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}}))
		if w.troubles[MongoDB] == nil {
			t.Fatal("what is read back ends the outage")
		}
	}
	if f := w.flush.retry.failures; f != attempts {
		t.Errorf("after %d failed attempts the next one waits as after %d", attempts, f)
	}
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	if w.troubles[MongoDB] != nil {
		t.Error("the outage outlasts a write that was acknowledged")
	}
	wants(t, w, 1)
}

// TestUpdateThatIsNeverExecutedBlamesNobody: the log tells a bucket that somebody changed from a MongoDB that takes no
// updates.
func TestUpdateThatIsNeverExecutedBlamesNobody(t *testing.T) {
	template, m := newTestWorker(t)
	var log bytes.Buffer
	o := template.o
	o.Bucketing.Limits = timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	w := NewWorker(o)
	claimWith(t, w, m, Assigned{TopicID: thisTopic, Committed: 0})
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
	m.Now += w.o.Grace
	expect[AskPositions](t, w.Handle(m, Ticked{}))
	w.Handle(m, PositionsAsked{})
	if says := log.String(); !strings.Contains(says, "an update was not executed") || strings.Contains(says, "somebody") {
		t.Errorf("the log says:\n%s", says)
	}
	wants(t, w, 1)
}
