package redrive

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"waterwheel/internal/kafka"
)

// refusesSome refuses every seventh letter of filled, from the second on.
func refusesSome(r *kafka.Message) bool {
	var i int
	_, err := fmt.Sscanf(string(r.Value), "letter %d", &i)
	return err == nil && i%7 == 1
}

// isOnceButRefused checks that each of n letters is in the source topic once, except those that refusesSome refuses.
func (w *world) isOnceButRefused(t *testing.T, n int) {
	t.Helper()
	counts := w.arrived()
	for i := range n {
		name, want := fmt.Sprintf("letter %d", i), 1
		if refusesSome(&kafka.Message{Value: []byte(name)}) {
			want = 0
		}
		if counts[name] != want {
			t.Fatalf("%s went back %d times, want %d", name, counts[name], want)
		}
	}
}

// TestRefusedLetterHoldsUpNoOther checks that all letters except the refused ones are redriven, in the same batch and in later
// ones. Neither the same selection nor another may find unfinished work.
func TestRefusedLetterHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filled(60)
		w.rate, w.refuses = 10, refusesSome
		var refused []string
		report, err := w.run(t, func(o *Options) {
			o.Refused = func(r Refusal) {
				if !errors.Is(r.Err, errTooLarge) || r.To.Topic != "events" {
					t.Errorf("refusal %+v", r)
				}
				refused = append(refused, fmt.Sprintf("%s %s", r.Place, w.logs[r.Partition][r.Offset].Value))
			}
		})
		if err != nil || report.Refused != 9 || report.Driven != 51 || report.Read != report.Total {
			t.Fatalf("%+v, %v", report, err)
		}
		w.isOnceButRefused(t, 60)
		if len(refused) != 9 || !slices.Contains(refused, "events.dlq/0/2 letter 1") {
			t.Errorf("refused are %q", refused)
		}
		if c := w.commits[""][dead]; c.Metadata != "" || c.Offset != 66 {
			t.Errorf("committed %+v", c)
		}
		for _, attempts := range []int{DefaultMaxAttempts, DefaultMaxAttempts + 1} {
			report, err = w.run(t, func(o *Options) { o.Selection.MaxAttempts = attempts })
			if err != nil || report.Driven != 0 || report.Refused != 0 {
				t.Errorf("afterwards, with --max-attempts %d: %+v, %v", attempts, report, err)
			}
		}
	})
}

// TestCrashBesideRefusedLettersIsHealed checks this also when a run is killed or an answer is lost.
func TestCrashBesideRefusedLettersIsHealed(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		for failAt := 1; failAt <= 30; failAt++ {
			synctest.Test(t, func(t *testing.T) {
				w := filled(60)
				w.rate, w.refuses = 10, refusesSome
				w.failAt, w.late, w.lasts, w.half = failAt, true, lasts, true
				_, _ = w.run(t, nil) // it may fail
				w.failAt = 0
				if _, err := w.run(t, nil); err != nil {
					t.Fatal(err)
				}
				w.isOnceButRefused(t, 60)
			})
		}
	}
}

// TestRefusedLettersCountForTheLimit checks that the limit also counts refused letters. It bounds the number of records that are
// sent to a topic that refuses them all.
func TestRefusedLettersCountForTheLimit(t *testing.T) {
	w := filled(60)
	w.refuses = func(*kafka.Message) bool { return true }
	report, err := w.run(t, func(o *Options) { o.Limit = 5 })
	if err != nil || report.Refused != 5 || report.Driven != 0 || w.commits[""][dead].Offset != 6 {
		t.Errorf("%+v, %v, committed %+v", report, err, w.commits[""])
	}
}
