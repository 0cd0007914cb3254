package segments

import (
	"flag"
	"maps"
	"slices"
	"testing"
)

var (
	runs  = flag.Int("segments.runs", 3000, "runs of the model with all guards; with the race detector a tenth of them")
	seed  = flag.Uint64("segments.seed", 1, "the first seed")
	raced = false // set by the race detector, with which a run takes ten times as long
	trace = flag.Bool("segments.trace", false, "print what happens in the first run")
)

// TestModel checks that with all guards nothing is lost, stored twice, shown twice or missing in queries, and that every
// dangerous event occurred.
func TestModel(t *testing.T) {
	n := *runs
	if raced {
		n /= 10
	}
	seen := map[event]int{}
	for s := range uint64(n) {
		w := newWorld(*seed + s)
		w.trace = *trace && s == 0
		w.run()
		if len(w.faults) > 0 {
			t.Fatalf("seed %d: %v", *seed+s, w.faults[:min(3, len(w.faults))])
		}
		for what, n := range w.seen {
			seen[what] += n
		}
	}
	for _, what := range dangers {
		t.Logf("%8d %s", seen[what], what)
		if seen[what] == 0 && n >= 3000 {
			t.Errorf("never came up: %s", what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		if !slices.Contains(dangers, what) {
			t.Errorf("not listed: %s", what)
		}
	}
}

// TestCalm checks that without faults each compaction ends in time, and no query sees anything twice.
func TestCalm(t *testing.T) {
	for s := range uint64(100) {
		w := newWorld(*seed + s)
		w.calm = true
		w.run()
		if len(w.faults) > 0 || w.seen[shownTwice] > 0 {
			t.Fatalf("seed %d: %d shown twice, %v", *seed+s, w.seen[shownTwice], w.faults[:min(3, len(w.faults))])
		}
	}
}

// TestGuards checks that the protocol fails without any one of its rules.
func TestGuards(t *testing.T) {
	if raced {
		t.Skip("takes too long with the race detector: run go test ./segments")
	}
	for _, g := range guards {
		if n, fault := noticed(*seed, g); n == 0 {
			t.Errorf("not noticed: %s", g)
		} else {
			t.Logf("%5d %s: %s", n, g, fault)
		}
	}
}

// TestPairs checks that of two rules that replace each other one is enough and one is needed.
func TestPairs(t *testing.T) {
	for _, p := range pairs {
		if n, fault := noticed(*seed, p[0], p[1]); n == 0 {
			t.Errorf("not noticed: %s, and %s", p[0], p[1])
		} else {
			t.Logf("%5d %s, and %s: %s", n, p[0], p[1], fault)
		}
	}
}

// noticed returns the number of runs until missing rules are noticed, and the fault. The number is 0 if more than 3,000 runs are
// needed.
func noticed(from uint64, without ...guard) (run int, fault string) {
	for s := range 3000 {
		w := newWorld(from+uint64(s), without...)
		if w.run(); len(w.faults) > 0 {
			return s + 1, w.faults[0]
		}
	}
	return 0, ""
}
