package pipeline

import (
	"math/rand/v2"
	"testing"
)

func TestBudgetLetsTheLargestShrinkFirst(t *testing.T) {
	b := NewBudget(100)
	small, middle, large := &Worker{}, &Worker{}, &Worker{}
	for _, step := range []struct {
		worker *Worker
		bytes  int64
		target int64
	}{
		{small, 10, 0}, {middle, 40, 0}, {large, 50, 0}, // exactly the limit
		{large, 200, 50}, // 10 + 40 stay, the large one may have 50
		{middle, 90, 45}, // 10 + 45 + 45
		{large, 0, 0}, {middle, 90, 0},
	} {
		if got := b.Report(step.worker, step.bytes); got != step.target {
			t.Fatalf("after a report of %d the target is %d, want %d", step.bytes, got, step.target)
		}
	}
	b.Leave(middle)
	if b.Total() != 10 {
		t.Fatalf("total is %d after a partition left, want 10", b.Total())
	}
}

// Whatever the sizes: when every partition above the level comes down to it, the sum is within the limit and wastes less
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
			level = b.Report(&Worker{}, rnd.Int64N(1+rnd.Int64N(2_000)))
		}
		if level == 0 {
			continue
		}
		sum := int64(0)
		for _, bytes := range b.used {
			sum += min(bytes, level)
		}
		if sum > max(b.Limit(), int64(n)) || sum <= b.Limit()-int64(n) {
			t.Fatalf("the level %d makes %d of a limit of %d, %d partitions", level, sum, b.Limit(), n)
		}
	}
}
