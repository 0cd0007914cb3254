package pipeline

import (
	"testing"
	"time"
)

// TestOutageOfWritesLastsThoughReadsAreAnswered: a full disk or a lost privilege stops writes alone. That they are read
// back in between neither ends the outage nor makes the attempts come faster.
func TestOutageOfWritesLastsThoughReadsAreAnswered(t *testing.T) {
	w, m := flushing(t)
	since, attempts := m.Now, 0
	for end := m.Now + time.Minute; m.Now < end; attempts++ {
		w.Handle(m, WritesSent{Sent: []Sent{{Result: Unknown, Err: errDown}}})
		if trouble := w.troubles[MongoDB]; trouble == nil || trouble.Since != since {
			t.Fatalf("after %d attempts the trouble is %+v, want one since %v", attempts, trouble, since)
		}
		m.Now += longestDelay
		expect[ResolveWrites](t, w.Handle(m, Ticked{}))
		expect[SendWrites](t, w.Handle(m, WritesResolved{Found: []Found{FoundNotApplied}}))
		if w.troubles[MongoDB] == nil {
			t.Fatal("what is read back ends the outage")
		}
	}
	if f := w.flush.retry.failures; f != attempts {
		t.Errorf("after %d failed attempts the next one waits as after %d", attempts, f)
	}
	w.Handle(m, WritesSent{Sent: []Sent{{Result: Acked}}})
	if w.troubles[MongoDB] != nil {
		t.Error("the outage outlasts a write that was acknowledged")
	}
	wants(t, w, 1)
}
