package curves

import (
	"os"
	"path/filepath"
	"testing"

	"waterwheel/e2e/bench"
)

func TestLoadsAreValidAndDifferInTheirParameter(t *testing.T) {
	for _, c := range All(1) {
		for _, line := range c.Lines {
			seen := map[bench.Load]float64{}
			for _, s := range line.Steps {
				if err := s.Load.Validate(); err != nil {
					t.Errorf("%s at %g: %v", c.Name, s.X, err)
				}
				if x, twice := seen[s.Load]; twice {
					t.Errorf("%s: the same load at %g and %g", c.Name, x, s.X)
				}
				seen[s.Load] = s.X
				if event := len(bench.NewMaker(s.Load).Append(nil, 0)); s.Load.Records*event > 4e8 {
					t.Errorf("%s at %g: %d bytes, too many for a few seconds", c.Name, s.X, s.Load.Records*event)
				}
			}
		}
	}
}

func TestAScaleLeavesOutWhatHasMoreSeriesThanRecords(t *testing.T) {
	steps := All(0.1)[0].Lines[0].Steps
	if n := len(steps); n != 5 || steps[n-1].X != 100_000 || steps[n-1].Load.Records != 100_000 {
		t.Errorf("%d points, the last of %+v", n, steps[n-1])
	}
}

func TestSpreadOfHours(t *testing.T) {
	for _, line := range All(1)[5].Lines {
		for _, s := range line.Steps {
			m, l := bench.NewMaker(s.Load), s.Load
			least, most := m.Time(0), m.Time(0)
			for i := 0; i < l.Records; i += l.Series {
				at := m.Time(i)
				if at.Before(least) {
					least = at
				}
				if at.After(most) {
					most = at
				}
			}
			if got := most.Sub(least).Hours(); got < 0.97*s.X || got > 1.01*s.X {
				t.Errorf("%s at %g hours: spread over %g", line.Name, s.X, got)
			}
		}
	}
}

func TestDrawAndSentence(t *testing.T) {
	c := All(1)[5]
	measured := []Measured{
		{"in order of time", []Point{{0.1, 10, 5, 100_000}, {100, 10, 6, 90_000}}},
		{"shuffled", []Point{{0.1, 10, 5, 100_000}, {100, 10, 50, 9_000}}},
	}
	want := "In order of time, a measurement takes 5 µs of own processor time at 0.1 hours and 6 µs at 100, 1.2 times as much; " +
		"shuffled, a measurement takes 5 µs of own processor time at 0.1 hours and 50 µs at 100, 10 times as much (the buckets are stored)."
	if got := c.Sentence(measured); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	dir := t.TempDir()
	name, err := c.Draw(dir, measured)
	if err != nil || name != "cost-order.svg" {
		t.Fatal(name, err)
	}
	if svg, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(svg) < 5000 {
		t.Errorf("a drawing of %d bytes, %v", len(svg), err)
	}
}
