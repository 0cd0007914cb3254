package pipeline

import (
	"math/rand/v2"
	"testing"
)

func TestBudgetLetsTheLargestShrinkFirst(t *testing.T) {
	b := NewBudget(160) // of which 150 may be used before anybody is told to shrink
	small, middle, large := &Worker{}, &Worker{}, &Worker{}
	for _, step := range []struct {
		worker *Worker
		bytes  int64
		target int64
		full   bool
	}{
		{small, 10, 0, false},
		{middle, 40, 0, false},
		{large, 100, 0, false},
		{large, 110, 100, false}, // near the limit
		{large, 200, 100, true},  // 10 + 40 stay, the large one may have 100
		{middle, 90, 70, true},   // 10 + 70 + 70
		{large, 0, 0, false},
		{middle, 90, 0, false},
	} {
		if target, full := b.Report(step.worker, step.bytes); target != step.target || full != step.full {
			t.Fatalf("after a report of %d the target is %d (full: %v), want %d (%v)", step.bytes, target, full, step.target, step.full)
		}
	}
	b.Leave(middle)
	if b.Total() != 10 {
		t.Fatalf("total is %d after a partition left, want 10", b.Total())
	}
}

func TestBudgetLetsOthersGiveWhatTheLargestCannot(t *testing.T) {
	b := NewBudget(160) // of which 150 may be used before anybody is told to shrink
	middle, large := &Worker{}, &Worker{}
	told := func(w *Worker, bytes, want, then int64) {
		t.Helper()
		if target, _ := b.Report(w, bytes); target != want {
			t.Fatalf("after a report of %d the target is %d, want %d", bytes, target, want)
		}
		b.Use(w, then)
	}
	told(middle, 70, 0, 70)
	told(large, 110, 80, 110) // it cannot come down
	told(middle, 70, 40, 40)  // so the other one does
	told(large, 110, 0, 110)
	told(middle, 60, 90, 60)
	told(large, 110, 90, 80) // now it can
	told(middle, 60, 0, 60)
}

func TestBudgetCountsWhatIsFetched(t *testing.T) {
	b := NewBudget(160)
	one, other := &Worker{}, &Worker{}
	b.Report(one, 100)
	b.Fetched(other, 70)
	if b.Total() != 170 || b.Fetching() != 70 {
		t.Fatalf("total is %d, of it fetched %d", b.Total(), b.Fetching())
	}
	if target, full := b.Report(one, 100); target != 80 || !full {
		t.Fatalf("target %d (full: %v), want 80 beside a fetch of 70", target, full)
	}
	b.Fetched(other, 0)
	if target, full := b.Report(one, 100); target != 0 || full || b.Fetching() != 0 {
		t.Fatalf("target %d (full: %v) after the fetch was taken", target, full)
	}
}

// Whatever the sizes: when every partition above the level comes down to it, the sum leaves the headroom and wastes less
// than one byte a partition.
func TestBudgetLevelMeetsTheLimit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		b := NewBudget(1 + rnd.Int64N(10_000))
		n := 1 + rnd.IntN(64)
		level := int64(0)
		for range n {
			level, _ = b.Report(&Worker{}, rnd.Int64N(1+rnd.Int64N(2_000)))
		}
		if level == 0 {
			continue
		}
		sum := int64(0)
		for _, u := range b.used {
			sum += min(u.held, level)
		}
		if want := b.Limit() - b.Limit()/headroom; sum > max(want, int64(n)) || sum <= want-int64(n) {
			t.Fatalf("the level %d makes %d of a limit of %d, %d partitions", level, sum, b.Limit(), n)
		}
	}
}
