package live

import (
	"strings"
	"testing"
	"time"
)

func TestGridHasEachCaseOnce(t *testing.T) {
	within, beyond := Grid(10_000)
	if len(within)+len(beyond) != len(Rates)*len(Series) {
		t.Errorf("%d and %d cases", len(within), len(beyond))
	}
	for _, c := range within {
		if c.Total() > 10_000 {
			t.Errorf("%s is beyond 10,000 a second", c)
		}
	}
	if want := (Case{100, 100}); !contains(within, want) || contains(beyond, want) {
		t.Errorf("%s is not within 10,000 a second", want)
	}
	if want := (Case{1_000_000, 1}); !contains(beyond, want) {
		t.Errorf("%s is not beyond 10,000 a second", want)
	}
}

func contains(cases []Case, want Case) bool {
	for _, c := range cases {
		if c == want {
			return true
		}
	}
	return false
}

func TestShare(t *testing.T) {
	if got := Share(20*time.Minute, 12); got != 100*time.Second {
		t.Errorf("a share of %s", got)
	}
	if got := Share(time.Minute, 12); got != leastTime {
		t.Errorf("a share of %s, less than two flushes take", got)
	}
}

func TestFreshnessOfWhatBecomesVisible(t *testing.T) {
	begin := time.UnixMilli(1_000_000)
	p := &probe{}
	w := &probes{all: []*probe{p}, waiting: map[*probe][]int64{}}
	for i := range 100 { // one each 10 ms
		w.waiting[p] = append(w.waiting[p], begin.UnixMilli()+int64(10*i))
	}
	p.seen = begin.UnixMilli() + 490 // the first 50
	w.visible(p, begin.Add(time.Second))
	f := w.freshness()
	if f.Samples != 50 || f.Unseen != 50 || f.Max != time.Second || f.P50 != 760*time.Millisecond || f.P99 != time.Second {
		t.Errorf("%+v", f)
	}
	w.visible(p, begin.Add(time.Minute)) // nothing more
	if again := w.freshness(); again != f {
		t.Errorf("%+v, then %+v", f, again)
	}
}

func TestFiguresAreOfTheTimeBetweenTwoMoments(t *testing.T) {
	at := time.Now()
	r := Result{Case: Case{100, 1}}
	r.between(moment{at: at, produced: 50, stored: 100, writes: 10, cpu: time.Second, server: time.Second, serverKnown: true},
		moment{at: at.Add(10 * time.Second), produced: 1050, stored: 1100, writes: 110, cpu: 1500 * time.Millisecond, server: 3 * time.Second, serverKnown: true})
	if r.Produced != 100 || r.Stored != 100 || r.Writes != 10 || r.PerWrite != 10 || r.CPU != 500 || *r.ServerCPU != 2000 || r.Behind() {
		t.Errorf("%+v", r)
	}
	r.Stored = 80
	if !r.Behind() {
		t.Errorf("80 of 100 a second are not said to be behind")
	}
}

func TestTableAndDrawings(t *testing.T) {
	results := []Result{{Case: Case{100, 0.1}, Produced: 10, Stored: 10, CPU: 20, Density: 3}, {Case: Case{100, 1}, Produced: 100, Stored: 50, CPU: 5, Density: 9}}
	table := Table(results)
	if !strings.Contains(table, "| 100 | 0.1 | 10 | 20 µs | – |") || !strings.Contains(table, "| 50 **behind** |") {
		t.Error(table)
	}
	names, err := Draw(t.TempDir(), results)
	if err != nil || strings.Join(names, " ") != "live-density.svg live-cost.svg" {
		t.Errorf("drew %v, %v", names, err)
	}
}
