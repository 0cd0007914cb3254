package bench

import (
	"strings"
	"testing"
	"time"
)

// TestLiveInEachWay checks for each way that all produced measurements are stored, counted, and visible to readers.
func TestLiveInEachWay(t *testing.T) {
	for _, way := range Ways {
		t.Run(string(way), func(t *testing.T) {
			b, _ := newBench(t)
			b.Settings["COMPACT_VISIBILITY_DELAY"] = "2s" // the test is short
			r, err := b.Live(within(t, 3*time.Minute), Case{Series: 20, Rate: 2}, way, 24*time.Second)
			if err != nil || r.Failure != "" {
				t.Fatal(err, r)
			}
			if r.Way != way || r.Behind() || r.CPU <= 0 || r.Stored < r.Writes || r.Stable == 0 {
				t.Errorf("%+v", r)
			}
			if f := r.Freshness; f.Samples == 0 || f.P50 <= 0 {
				t.Errorf("freshness: %+v", f)
			}
			if (r.Density == 0) != (way == Plain) || (r.Compacted == 0) == (way == Segments) {
				t.Errorf("density %g, compacted %g a second", r.Density, r.Compacted)
			}
			if table := LiveTable([]LiveResult{r}); !strings.Contains(table, "| "+string(way)+" |") {
				t.Error(table)
			}
		})
	}
}

func TestFreshnessOfWhatIsFound(t *testing.T) {
	begin := time.UnixMilli(1_000_000)
	p := &probes{names: []string{"p", "q"}, seen: map[string]time.Time{}}
	p.begin(begin.Add(-time.Millisecond))
	p.since, p.written = time.Now(), 100
	var first []measured
	for i := range 50 {
		first = append(first, measured{"p", begin.Add(time.Duration(10*i) * time.Millisecond)})
	}
	before := measured{"q", begin.Add(-time.Second)} // written before the looks began
	p.found(begin.Add(time.Second), append(first, before))
	p.found(begin.Add(2*time.Second), first) // found already
	f := p.freshness()
	if f.Samples != 50 || f.Unseen != 50 || f.Max != time.Second || f.P50 != 760*time.Millisecond || f.P99 != time.Second {
		t.Errorf("%+v", f)
	}
	if text := f.String(); text != "0.76 / 0.95 / 1.00 / 1.00 (50 more not seen)" {
		t.Error(text)
	}
}

func TestFiguresAreOfTheTimeBetweenTwoMoments(t *testing.T) {
	at := time.Now()
	r := LiveResult{Case: Case{100, 1}, ServerCPU: -1}
	r.between(moment{at: at, produced: 50, stored: 100, writes: 10, cpu: time.Second, server: time.Second},
		moment{at.Add(10 * time.Second), 1050, 1100, 110, 400, 1500 * time.Millisecond, 3 * time.Second})
	if r.Produced != 100 || r.Stored != 100 || r.Writes != 10 || r.Compacted != 40 || r.CPU != 500 || r.ServerCPU != 2000 || r.Behind() {
		t.Errorf("%+v", r)
	}
	if r.Stored = 80; !r.Behind() {
		t.Errorf("80 of 100 a second are not said to be behind")
	}
}
