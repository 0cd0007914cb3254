package bench

import (
	"strings"
	"testing"
	"time"
)

// TestReport checks medians and spread over the rounds, and the ratios of peers in the same round, in any order of the peers.
func TestReport(t *testing.T) {
	t.Parallel()
	result := func(peer Peer, round int, wall time.Duration) Result {
		r := Result{
			Peer: peer, Round: round, Measurements: 1000, Stored: 1000, Wall: wall, CPU: wall / 2, ServerCPU: -1, KafkaCPU: -1,
			MaxResident: int64(round) << 20, Size: Size{Documents: 10, Data: 76_400, Disk: 26_600, Indexes: 810},
		}
		if peer == Waterwheel {
			r.ServerCPU = 5 * time.Millisecond
		}
		return r
	}
	r := &Report{Topic: Topic{Load: Base()}, Results: []Result{
		result(Waterwheel, 1, time.Second), result(Naive, 1, 10*time.Second),
		result(Naive, 2, 12*time.Second), result(Waterwheel, 2, 2*time.Second),
		result(Waterwheel, 3, 4*time.Second), result(Naive, 3, 8*time.Second),
	}}
	r.Results[0].Stored = 999
	table := r.Markdown()
	for _, want := range []string{
		"| waterwheel | 500 (250–1.00 k) | 1.00 k (500–2.00 k) | 1000 µs (500 µs–2000 µs) | 5.00 µs | – | 76 / 26.6 / 0.810 | 10 | 3 MiB | **no** |",
		"| naive | 100 (83.3–125) |", "waterwheel / naive: 6.00 (2.00–10.0) times",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
}
