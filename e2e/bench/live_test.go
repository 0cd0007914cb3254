package bench_test

import (
	"strings"
	"testing"
	"time"

	"waterwheel/e2e/bench/live"
)

// TestLiveInEachWay checks for each way that all produced measurements are stored, counted, and visible to readers.
func TestLiveInEachWay(t *testing.T) {
	for _, way := range live.Ways {
		t.Run(string(way), func(t *testing.T) {
			b, _ := newBench(t)
			b.Settings["COMPACT_VISIBILITY_DELAY"] = "2s" // the test is short
			r, err := live.Measure(within(t, 3*time.Minute), b, live.Case{Series: 20, Rate: 2}, way, 16*time.Second)
			if err != nil || r == nil || r.Trouble != "" {
				t.Fatal(err, r)
			}
			if r.Way != way || r.Behind() || r.CPU == 0 || r.PerWrite < 1 || r.Bytes == 0 {
				t.Errorf("%+v", r)
			}
			if f := r.Freshness; f.Samples == 0 || f.Unseen > 0 || f.P50 <= 0 {
				t.Errorf("freshness: %+v", f)
			}
			if (r.Density == 0) != (way == live.Plain) || (r.Compacted == 0) == (way == live.Segments) || way != live.Segments && r.InSegments > 0 {
				t.Errorf("density %g, compacted %g a second, %d are left in segments", r.Density, r.Compacted, r.InSegments)
			}
			if table := live.Table([]live.Result{*r}); !strings.Contains(table, "| "+string(way)+" |") {
				t.Error(table)
			}
		})
	}
}
