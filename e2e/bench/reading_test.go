package bench

import (
	"strings"
	"testing"
	"time"
)

// TestEveryWayFindsWhatIsStored checks this because the time of a way of reading counts only if it finds exactly the stored
// measurements. With rollups, both ways find the same windows.
func TestEveryWayFindsWhatIsStored(t *testing.T) {
	p := Plan{Load: small(), Patience: 2 * time.Minute}
	p.Load.Step, p.Load.Records = time.Minute, 500
	for levels, want := range map[string]int{"": 6, "1m,1h,1d": 6} {
		b, log := newBench(t)
		if levels != "" {
			b.Settings[RollupLevels], b.Settings["ROLLUP_INTERVAL"], b.Settings["ROLLUP_SHARE"] = levels, "1s", "1"
		}
		figures, err := b.Reading(within(t, 5*time.Minute), p, time.Millisecond)
		if err != nil || len(figures) < want {
			t.Fatalf("%d figures, %v\n%s", len(figures), err, log)
		}
		for _, f := range figures {
			if f.Time <= 0 {
				t.Errorf("%+v", f)
			}
		}
	}
}

func TestFigureTableComparesWithTheFirstWay(t *testing.T) {
	got := FigureTable([]Figure{
		{Query: "a", Way: "native", Time: 10 * time.Millisecond, CPU: 8 * time.Millisecond},
		{Query: "a", Way: "reader", Time: 5 * time.Millisecond, CPU: 16 * time.Millisecond},
		{Query: "b", Way: "reader", Time: time.Millisecond, CPU: -1},
	})
	for _, line := range []string{"| a | reader | 16.00 ms | 5.00 ms | 2.00 | 0.50 |", "| b | reader | – | 1.00 ms | – | 1.00 |"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
}
