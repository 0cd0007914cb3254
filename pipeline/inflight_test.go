package pipeline

import (
	"fmt"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
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
	most := (w.o.Wait - w.o.WriteGrace) / 2
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

func TestPaceFollowsWhatTheDatabaseManages(t *testing.T) {
	for name, c := range map[string]struct {
		took            time.Duration
		given, answered int64
		want            int64
	}{
		"in half the time":              {500 * time.Millisecond, 1000, 1000, 2000},
		"at once":                       {0, 1000, 1000, 4000},
		"in hardly any time":            {time.Millisecond, 1000, 1000, 4000},
		"in just the time":              {time.Second, 1000, 1000, 1000},
		"a smaller one, quickly":        {time.Millisecond, 400, 400, 1000},
		"a smaller one, in that time":   {time.Second, 400, 400, 1000},
		"in twice the time":             {2 * time.Second, 1000, 1000, 1125 + writeWeight},
		"in more than that":             {2500 * time.Millisecond, 1000, 1000, 400},
		"a smaller one, too slowly":     {3 * time.Second, 900, 900, 300},
		"a tiny one that met a pause":   {4 * time.Second, 10, 10, 250},
		"not to the end":                {4 * time.Second, 1000, 800, 250},
		"nearly to the end, and quick":  {time.Second, 1000, 900, 500},
		"nothing was answered":          {4 * time.Second, 1000, 0, 250},
		"nothing was answered, at once": {0, 1000, 0, 500},
	} {
		p := pace{bound: 1000, target: time.Second}
		if p.took(c.took, c.given, c.answered); p.bound != c.want {
			t.Errorf("%s: the bound is %d, want %d", name, p.bound, c.want)
		}
	}
	// The sent writes count, not the possible ones. An outage during a few writes says nothing about their number.
	for given, want := range map[int64]int64{40 * fewWrites: 10 * fewWrites, writeWeight: fewWrites / paceStep} {
		p := pace{bound: 1 << 40, target: time.Second}
		if p.took(4*time.Second, given, 0); p.bound != want {
			t.Errorf("nothing of %d was answered: the bound is %d, want %d", given, p.bound, want)
		}
	}
	// A slow network does not become faster with smaller calls.
	far := pace{bound: 1 << 20, target: time.Second}
	for range 100 {
		far.took(3*time.Second+time.Duration(far.bound)*time.Microsecond, far.bound, far.bound)
	}
	if far.bound < 1<<14 {
		t.Errorf("with three seconds' way the bound is %d in the end", far.bound)
	}
	p := pace{bound: 1, target: time.Second}
	if p.took(time.Hour, 10, 0); p.bound != 1 {
		t.Errorf("the bound is %d: nothing would be sent", p.bound)
	}
}

// manySeries returns a worker that has just begun a flush of n writes, with the writes of its first call.
func manySeries(t *testing.T, n int, changes ...func(*Options)) (*Worker, Moment, []*bucketer.Write) {
	t.Helper()
	w, m := newTestWorker(t, changes...)
	records := make([]record.Record, n)
	for i := range records {
		records[i] = recordOf(int64(i), fmt.Sprintf(`{"time":1767000000000,"meta":"s%d","x":1}`, i))
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: records, Next: int64(n), End: int64(n)}})
	m.Now += w.o.FlushInterval
	return w, m, expect[SendWrites](t, w.Handle(m, Ticked{})).Writes
}

func answers(n int, s bucketer.Sent) []bucketer.Sent {
	sent := make([]bucketer.Sent, n)
	for i := range sent {
		sent[i] = s
	}
	return sent
}

func TestAFlushIsSentInPartsAsLargeAsTheDatabaseManages(t *testing.T) {
	w, m, writes := manySeries(t, 100, func(o *Options) { o.Send = 1 })
	seen := map[*bucketer.Write]bool{}
	var sizes []int
	for total := 0; ; {
		for _, x := range writes {
			if seen[x] {
				t.Fatal("a write that was applied is sent again")
			}
			seen[x] = true
		}
		sizes, total = append(sizes, len(writes)), total+len(writes)
		actions := w.Handle(m, WritesSent{Sent: answers(len(writes), bucketer.Sent{Result: bucketer.Applied})}) // at once
		if total == 100 {
			break
		}
		wants(t, w, 0)
		writes = expect[SendWrites](t, actions).Writes
	}
	wants(t, w, 100)
	if len(sizes) < 3 || sizes[0] != 1 || sizes[len(sizes)-2] <= sizes[0] {
		t.Errorf("the parts had %v writes", sizes)
	}
}

func TestWritesWithoutATurnAreNoOutageAndNotUnknown(t *testing.T) {
	w, m, writes := manySeries(t, 10)
	noTurn := bucketer.Sent{Result: bucketer.NotExecuted, Err: fmt.Errorf("of MongoDB: %w", claim.ErrNoTurn)}
	sent := append(answers(4, bucketer.Sent{Result: bucketer.Applied}), answers(6, noTurn)...)
	m.Now += 10 * time.Second
	again := expect[SendWrites](t, w.Handle(m, WritesSent{Sent: sent})).Writes // at once, without a back-off
	if len(again) == 0 || again[0] != writes[4] {
		t.Fatalf("%d writes are sent then", len(again))
	}
	if s := w.Status(m.Now); s.Failures[MongoDB] != nil || s.Unknown != 0 {
		t.Errorf("failure %v, %d unknown writes", s.Failures[MongoDB], s.Unknown)
	}
	// If no write has a turn, it is no queue.
	m.Now += 10 * time.Second
	absent[SendWrites](t, w.Handle(m, WritesSent{Sent: answers(len(again), noTurn)}))
	if s := w.Status(m.Now); s.Failures[MongoDB] == nil {
		t.Error("a database that took nothing in all the time is taken for a healthy one")
	}
	m.Now += longestDelay
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, Abandoned{}) // none of the first six can be executed, but the write in flight may be
	if w.past.unknownUntil != m.Now+w.o.WriteGrace {
		t.Errorf("unknown until %v at %v", w.past.unknownUntil, m.Now)
	}
}

// TestWhatHadNoTurnIsNotWaitedForAtTheEnd checks that a write that was never sent leaves nothing unknown at the end of a term.
func TestWhatHadNoTurnIsNotWaitedForAtTheEnd(t *testing.T) {
	w, m, _ := manySeries(t, 10)
	noTurn := bucketer.Sent{Result: bucketer.NotExecuted, Err: claim.ErrNoTurn}
	m.Held = false // nothing more is sent
	w.Handle(m, WritesSent{Sent: append(answers(4, bucketer.Sent{Result: bucketer.Applied}), answers(6, noTurn)...)})
	w.Handle(m, Abandoned{})
	if w.past.unknownUntil != 0 {
		t.Errorf("unknown until %v", w.past.unknownUntil)
	}
}
