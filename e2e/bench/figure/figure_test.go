package figure

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.svg")
	panel := Panel{
		Title: "Cost", X: Axis{Name: "series", Log: true}, Y: Axis{Name: "µs of own CPU"},
		Lines: []Line{
			{"in order", []Point{{1000, 2}, {1_000_000, 11}}},
			{"shuffled", []Point{{1000, 3}, {1_000_000, 15}}},
		},
	}
	if err := Write(path, panel, panel); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">Cost<", ">series<", ">µs of own CPU<", ">in order<", ">shuffled<", ">1k<", ">1M<", ">10<", "sans-serif"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the drawing lacks %s", want)
		}
	}
	if n := strings.Count(string(svg), ">Cost<"); n != 2 {
		t.Errorf("%d panels, not 2", n)
	}
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the drawing is no XML: %v", err)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, panel := range map[string]Panel{
		"no points":     {Title: "none"},
		"zero in a log": {X: Axis{Log: true}, Lines: []Line{{"", []Point{{0, 1}, {1, 2}}}}},
	} {
		if err := Write(filepath.Join(t.TempDir(), "a.svg"), panel); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.05: "0.05", 1: "1", 12.345: "12.3", 155_123: "155k", 999_600: "1M", 1_200_000: "1.2M", 2e9: "2G", 100: "100"} {
		if got := Number(x); got != want {
			t.Errorf("%g: %s, not %s", x, got, want)
		}
	}
}

func TestBoundsHoldAllValues(t *testing.T) {
	for _, c := range []struct {
		axis        Axis
		values      []float64
		least, most float64
	}{
		{Axis{Log: true}, []float64{1000, 1_000_000}, 1000, 1_000_000},
		{Axis{Log: true}, []float64{3, 40}, 2, 50},
		{Axis{Log: true}, []float64{0.07}, 0.05, 0.1},
		{Axis{Log: true}, []float64{10}, 10, 100},
		{Axis{}, []float64{5}, 5, 6},
	} {
		if least, most := bounds(c.axis, c.values, false, 1); least != c.least || most != c.most {
			t.Errorf("%v: %g to %g, not %g to %g", c.values, least, most, c.least, c.most)
		}
	}
}

func TestLinearTicksAreAFewRoundNumbers(t *testing.T) {
	for most, want := range map[float64]string{14.3: "0 2 4 6 8 10 12 14", 26: "0 5 10 15 20 25", 1: "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1", 50: "0 5 10 15 20 25 30 35 40 45 50"} {
		var labels []string
		for _, tick := range (linearTicks{}).Ticks(0, most) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("up to %g: %s, not %s", most, got, want)
		}
	}
}
