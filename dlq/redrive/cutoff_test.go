package redrive

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"waterwheel/dlq"
	"waterwheel/internal/record"
)

// TestCrashAnywhereIsHealed checks that after a crash at any commit or request, before or after its effect, the next run
// completes the work.
func TestCrashAnywhereIsHealed(t *testing.T) {
	const n = 60
	for _, late := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			for failAt := 1; ; failAt++ {
				crashed := true
				synctest.Test(t, func(t *testing.T) {
					w := filled(n)
					w.rate = 10
					w.failAt, w.late, w.lasts, w.half = failAt, late, true, half
					_, err := w.run(t, nil)
					if crashed = err != nil; !crashed {
						return
					}
					if !errors.Is(err, errGone) {
						t.Fatal(err)
					}
					w.failAt = 0
					if _, err := w.run(t, nil); err != nil {
						t.Fatal(err)
					}
					w.isOnce(t, n)
				})
				if !crashed {
					if failAt < 15 {
						t.Fatalf("only %d effects: the letters did not go in several batches", failAt)
					}
					break
				}
			}
		}
	}
}

// TestNoTryAfterTheGroupIsLost checks that a run does not try again after its group was taken over, because the new run does.
func TestNoTryAfterTheGroupIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filled(20)
		w.tries = []int{2}
		w.failAt, w.lasts = 2, true // the commit after the first request fails, and everything after it
		if _, err := w.run(t, nil); err == nil || !strings.HasPrefix(err.Error(), "committing") || w.effects != 2 {
			t.Errorf("%v after %d effects", err, w.effects)
		}
	})
}

// TestDeletedLettersLeaveNothingUnfinished deletes letters after a run was killed while it processed them. They must not block
// another selection, whether all letters are deleted or only those of its batch and of the next.
func TestDeletedLettersLeaveNothingUnfinished(t *testing.T) {
	for _, first := range []int64{22, 15, 5} {
		synctest.Test(t, func(t *testing.T) {
			w := filled(20) // 22 letters
			w.rate, w.failAt, w.lasts = 10, 2, true
			if _, err := w.run(t, nil); !errors.Is(err, errGone) {
				t.Fatal(err)
			}
			w.failAt, w.first = 0, first
			other := func(o *Options) { o.Selection.MaxAttempts++ }
			if _, err := w.run(t, other); !errors.As(err, new(*UnfinishedError)) {
				t.Fatalf("the marker is not seen: %v", err)
			}
			if _, err := w.run(t, func(o *Options) { o.DryRun = true }); err != nil {
				t.Fatal(err)
			}
			if c := w.commits[""][dead]; c.Metadata == "" {
				t.Fatalf("a dry run committed %+v", c)
			}
			if _, err := w.run(t, nil); err != nil {
				t.Fatal(err)
			}
			if c := w.commits[""][dead]; c != (record.Commit{Place: record.Place{Partition: dead, Offset: 22}}) {
				t.Errorf("committed %+v", c)
			}
			if _, err := w.run(t, other); err != nil {
				t.Errorf("another selection: %v", err)
			}
		})
	}
}

// filledWithEqual returns a world with letters that differ only in the offsets of their records.
func filledWithEqual(n int) *world {
	w := newWorld()
	w.append(record.Partition{Topic: "events", Number: 3})
	for i := range n {
		l := sample()
		l.Offset = int64(i)
		w.letter(l)
	}
	return w
}

// TestEqualRecordsAreCounted checks that equal records are redriven exactly as often as they exist, even if half of a request is
// written before a crash.
func TestEqualRecordsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := filledWithEqual(20)
		w.failAt, w.late, w.lasts, w.half = 2, true, true, true
		if _, err := w.run(t, nil); !errors.Is(err, errGone) || w.arrived()["not json"] != 10 {
			t.Fatalf("%v, %v arrived", err, w.arrived())
		}
		w.failAt = 0
		report, err := w.run(t, nil)
		if err != nil || report.Arrived != 10 || report.Driven != 10 || w.arrived()["not json"] != 20 {
			t.Errorf("%+v, %v, %v arrived", report, err, w.arrived())
		}
	})
}

// TestEqualRecordsAreCountedAtEachTry checks that equal records are also counted when several tries of one run fail, after the
// first try has written a part and the second has or has not.
func TestEqualRecordsAreCountedAtEachTry(t *testing.T) {
	for _, c := range []struct {
		name  string
		tries []int // the number of records that each request writes before it fails
	}{
		{"the first writes a half, the second nothing", []int{10, 0}},
		{"each writes a part", []int{7, 6, 5}},
		{"the answer alone is lost, after a half", []int{10, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := filledWithEqual(20)
				w.tries = c.tries
				report, err := w.run(t, nil)
				if err != nil || report.Driven != 20 || report.Arrived != 0 || w.arrived()["not json"] != 20 {
					t.Errorf("%+v, %v, %v arrived", report, err, w.arrived())
				}
			})
		})
	}
}

// TestLostAnswerIsLookedUp checks that a lost answer does not end the run, and that no record arrives twice.
func TestLostAnswerIsLookedUp(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			for _, failAt := range []int{2, 3, 5, 8, 10} {
				synctest.Test(t, func(t *testing.T) {
					w := filled(60)
					w.rate = 10
					w.failAt, w.late, w.half = failAt, late, half
					if _, err := w.run(t, nil); err != nil && !strings.HasPrefix(err.Error(), "committing") {
						t.Fatal(err)
					}
					if _, err := w.run(t, nil); err != nil {
						t.Fatal(err)
					}
					w.isOnce(t, 60)
				})
			}
		}
	}
}

// TestSelectionsTogetherDriveOnce checks that overlapping selections that crash and take turns redrive each letter once.
func TestSelectionsTogetherDriveOnce(t *testing.T) {
	selections := []Selection{
		{MaxAttempts: 3},
		{Filter: dlq.Filter{Reasons: []string{"bad_time"}}, MaxAttempts: 3},
		{Filter: dlq.Filter{Reasons: []string{"not_json", "bad_time"}}, MaxAttempts: 4},
	}
	refused := 0
	for seed := range uint64(300) {
		var unfinished *UnfinishedError
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := filled(60)
			w.rate = 10
			for range 8 {
				w.effects, w.failAt, w.lasts = 0, random.IntN(12), random.IntN(2) == 0
				w.late, w.half = random.IntN(2) == 0, random.IntN(2) == 0
				s := selections[random.IntN(len(selections))]
				_, err := w.run(t, func(o *Options) { o.Selection, o.Limit = s, int64(random.IntN(40)) })
				if err != nil && !errors.Is(err, errGone) && !errors.As(err, &unfinished) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			w.failAt = 0
			for left := slices.Clone(selections); len(left) > 0; {
				_, err := w.run(t, func(o *Options) { o.Selection = left[0] })
				switch {
				case err == nil:
					left = left[1:]
				case errors.As(err, &unfinished):
					left = append([]Selection{unfinished.Selection}, left...)
				default:
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if unfinished != nil {
				refused++
			}
			w.isOnce(t, 60)
		})
	}
	if refused == 0 {
		t.Error("no selection ever met another that was cut off")
	}
}

func TestInterruptedRunGoesOn(t *testing.T) {
	w := filled(1100)
	ctx, cancel := context.WithCancelCause(t.Context())
	errAsked := errors.New("asked to stop")
	report, err := w.runUntil(ctx, t, w, func(o *Options) { o.Report = func(Report) { cancel(errAsked) } })
	if !errors.Is(err, errAsked) || report.Driven+report.Doubles != batchLetters {
		t.Fatalf("%d driven, %v; want one batch", report.Driven, err)
	}
	if c := w.commits[""][dead]; c.Metadata != "" || c.Offset == 0 {
		t.Errorf("committed %+v", c)
	}
	if _, err := w.run(t, nil); err != nil {
		t.Fatal(err)
	}
	w.isOnce(t, 1100)
}
