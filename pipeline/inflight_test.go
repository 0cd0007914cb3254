package pipeline

import (
	"testing"
	"time"

	"waterwheel/bucketer"
)

// TestAnInsertIsReadBackAgainLater checks an insert that waits long for its second sending, as in an outage. On a cluster an edit of
// metas may have moved the bucket to another shard meanwhile. The read-back itself may take long, and the insert is sent then.
func TestAnInsertIsReadBackAgainLater(t *testing.T) {
	w, m := flushing(t, func(o *Options) { o.Wait, o.Sharded = 12*time.Second, true })
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
	m.Now += longestDelay
	expect[ResolveWrites](t, w.Handle(m, Ticked{}))
	m.Now += w.o.Wait
	resolved := m.Now
	expect[SendWrites](t, w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}}))
	most := (w.o.Wait - w.o.Grace) / 2
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.NotExecuted, Err: errDown}}})
	if m.Now += longestDelay; m.Now-resolved > most {
		t.Fatalf("the delay %v must not exceed %v", longestDelay, most)
	}
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.NotExecuted, Err: errDown}}})
	m.Now = resolved + most + 1
	absent[SendWrites](t, w.Handle(m, Ticked{}))
	expect[SendWrites](t, w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}}))
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	wants(t, w, 1)
}
