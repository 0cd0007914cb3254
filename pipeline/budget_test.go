package pipeline

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

func TestBudgetLetsTheLargestShrinkFirst(t *testing.T) {
	b := NewBudget(160) // 150 of it may be used before a partition is told to shrink
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
		{large, 200, 100, true},  // 10 and 40 stay, so the large one may have 100
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
	b := NewBudget(160) // 150 of it may be used before a partition is told to shrink
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
	told(middle, 70, 40, 40)  // so the other one shrinks
	told(large, 110, 0, 110)
	told(middle, 60, 90, 60)
	told(large, 110, 90, 80) // now it can shrink
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

// TestBudgetLevelMeetsTheLimit checks random sizes. If every partition above the level shrinks to it, the sum leaves the headroom
// and wastes less than one byte per partition.
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

// reserve asks for memory in the background. The channel receives the number of bytes once they are granted.
func reserve(ctx context.Context, b *Budget, w *Worker) <-chan int {
	granted := make(chan int, 1)
	go func() {
		if bytes, err := b.Reserve(ctx, w); err == nil {
			granted <- bytes
		}
		close(granted)
	}()
	synctest.Wait()
	return granted
}

// got returns the number of bytes granted so far. Zero means none.
func got(granted <-chan int) int {
	synctest.Wait()
	select {
	case bytes := <-granted:
		return bytes
	default:
		return 0
	}
}

func TestPiecesWaitForRoomInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 256 << 20 // it has room for twelve pieces
		b, one, two, other := NewBudget(limit), &Worker{}, &Worker{}, &Worker{}
		b.Report(other, limit-30<<20)
		if n := got(reserve(t.Context(), b, one)); n != largestPiece {
			t.Fatalf("the first may have %d bytes, want a whole piece", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second := reserve(ctx, b, two)
		third := reserve(t.Context(), b, other)
		if got(second) != 0 || got(third) != 0 {
			t.Fatal("there is no room for a second piece")
		}
		if target, _ := b.Report(other, limit-30<<20); target == 0 {
			t.Error("nobody is told to shrink for the one who waits")
		}
		cancel() // its partition is revoked
		synctest.Wait()
		b.Report(one, 20<<20)
		b.Release(one, 0)
		if n := got(third); n != smallestPiece {
			t.Fatalf("a piece of %d bytes, want a small one: nothing else is under way, and there is no room", n)
		}
		b.Report(other, 10<<20)
		b.Release(other, 1000)
		if total := b.Total(); total != 30<<20+1000 || b.Fetching() != 1000 {
			t.Errorf("%d bytes are in use, of which %d are fetched", total, b.Fetching())
		}
		if n := got(reserve(t.Context(), b, two)); n != largestPiece {
			t.Errorf("a piece of %d bytes, and there is much room", n)
		}
		b.Leave(two)
		b.Leave(one)
		b.Leave(other)
		if b.Total() != 0 || b.granted != 0 {
			t.Errorf("%d bytes and %d pieces are left", b.Total(), b.granted)
		}
	})
}

func TestFetchesShareAQuarterOfTheBudget(t *testing.T) {
	b := NewBudget(64 << 20)
	if b.Share() != 16<<20 {
		t.Errorf("the first may fetch %d bytes", b.Share())
	}
	for range 32 {
		b.Report(&Worker{}, 1)
	}
	if b.Share() != 512<<10 {
		t.Errorf("each of 32 may fetch %d bytes", b.Share())
	}
}
