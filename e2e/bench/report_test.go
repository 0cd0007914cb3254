package bench_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/bench"
)

// result returns a result with 1,000 measurements.
func result(peer bench.Peer, round int, wall time.Duration) bench.Result {
	return bench.Result{
		Peer: peer, Round: round, Measurements: 1000, Stored: 1000, Wall: wall, CPU: wall / 2, MaxResident: int64(round) << 20,
		Size: bench.Size{Documents: 10, Data: 76_400, Disk: 26_600, Indexes: 810},
	}
}

// TestSummary checks medians and spread over the rounds, and the ratios of peers in the same round, in any order of the peers.
func TestSummary(t *testing.T) {
	t.Parallel()
	r := &bench.Report{Results: []bench.Result{
		result(bench.Waterwheel, 1, time.Second), result(bench.Naive, 1, 10*time.Second),
		result(bench.Naive, 2, 12*time.Second), result(bench.Waterwheel, 2, 2*time.Second),
		result(bench.Waterwheel, 3, 4*time.Second), result(bench.Naive, 3, 8*time.Second),
	}}
	server := 5 * time.Millisecond
	for i := range r.Results {
		if r.Results[i].Peer == bench.Waterwheel {
			r.Results[i].ServerCPU = &server
		}
	}
	r.Results[0].Stored, r.Results[0].Missing = 999, 1
	r.Summarise()
	if len(r.Summaries) != 2 || r.Summaries[0].Peer != bench.Waterwheel || r.Summaries[1].Peer != bench.Naive {
		t.Fatalf("summaries %+v", r.Summaries)
	}
	ours := r.Summaries[0]
	for what, pair := range map[string][2]any{
		"rate":          {bench.Spread{Median: 500, Least: 250, Most: 1000}, ours.Rate},
		"rate per core": {bench.Spread{Median: 1000, Least: 500, Most: 2000}, ours.RatePerCore},
		"own CPU":       {bench.Spread{Median: 1000, Least: 500, Most: 2000}, ours.CPU},
		"server's CPU":  {&bench.Spread{Median: 5, Least: 5, Most: 5}, ours.ServerCPU},
		"Kafka's CPU":   {(*bench.Spread)(nil), ours.KafkaCPU},
		"resident":      {int64(3 << 20), ours.MaxResident},
		"complete":      {[]bool{false, true}, []bool{ours.Complete, r.Summaries[1].Complete}},
		"ratios":        {[]bench.Ratio{{To: bench.Naive, Spread: bench.Spread{Median: 6, Least: 2, Most: 10}}}, r.Ratios},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %+v, not %+v", what, pair[1], pair[0])
		}
	}
	table := r.Markdown()
	for _, want := range []string{
		"| waterwheel | 500 (250–1.00 k) | 1.00 k (500–2.00 k) | 1000 µs (500–2000) | 5.00 µs | – | 76 / 26.6 / 0.810 | 10 | 3 MiB | **no** |",
		"| naive | 100 (83.3–125) |", "waterwheel / naive: 6.00 (2.00 to 10.0) times",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
}
