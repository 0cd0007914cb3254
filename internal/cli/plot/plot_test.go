package plot

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is a time to begin with.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hour is an hour of three sensors: one with a peak of a single value, one with a gap, one that speaks seldom.
func hour() *Plot {
	p := &Plot{Title: "celsius"}
	for i := range 3600 {
		at, x := noon.UnixMilli()+int64(i)*1000, float64(i)/600
		peak := 0.0
		if i == 2500 {
			peak = 8
		}
		p.Add("sensor=s-17", at, 20+1.5*math.Sin(x)+peak)
		if i < 1200 || i > 1500 {
			p.Add("sensor=s-18", at, 22+math.Cos(x))
		}
		if i%30 == 0 {
			p.Add("sensor=s-19", at, 19.5+x/4)
		}
	}
	return p
}

func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		plot *Plot
		o    Options
	}{
		"colors":   {hour(), Options{Width: 100, Height: 20, Color: true}},
		"ascii":    {hour(), Options{Width: 70, Height: 16, ASCII: true}},
		"signs":    {hour(), Options{Width: 60, Height: 12}},
		"range":    {hour(), Options{Width: 80, Height: 8, From: noon.Add(-time.Hour), To: noon.Add(2 * time.Hour), Location: time.FixedZone("X", 5400)}},
		"single":   {one("s", 40), Options{Width: 60, Height: 6}},
		"constant": {one("s", 0, 0, 0, 0), Options{Width: 60, Height: 6}},
		"huge":     {one("s", -1e299, 4e299, 1e300), Options{Width: 60, Height: 6}},
		"tiny":     {one("s", 1e-9, 2e-9, 9e-9, -3e-9), Options{Width: 60, Height: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c.plot.Draw(&out, c.o)
			file := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// one is a plot of these values, a second apart.
func one(name string, values ...float64) *Plot {
	p := &Plot{Title: "x"}
	for i, v := range values {
		p.Add(name, noon.UnixMilli()+int64(i)*1000, v)
	}
	return p
}

// TestBinsKeepExtremes compares the bounded spans with all values: count, times, smallest and largest stay, wherever each
// value is put, and in order of time the spans do not overlap.
func TestBinsKeepExtremes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		b, n := newBins(), 1+r.IntN(3000)
		at := r.Int64N(4e12) - 2e12
		low, high, from, to := math.Inf(1), math.Inf(-1), int64(math.MaxInt64), int64(math.MinInt64)
		for range n {
			v := r.NormFloat64()
			b.add(at, v)
			low, high, from, to = min(low, v), max(high, v), min(from, at), max(to, at)
			at += int64(r.ExpFloat64()*float64(int64(1)<<r.IntN(30))) - r.Int64N(3)*int64(r.IntN(50))
		}
		if len(b.spans) > maxBins || cap(b.spans) != maxBins {
			t.Fatalf("%d spans, room for %d", len(b.spans), cap(b.spans))
		}
		var whole span
		for i, s := range b.spans {
			if s.count > 0 && (s.from>>b.shift != b.begin+int64(i) || s.to>>b.shift != b.begin+int64(i)) {
				t.Fatalf("span %d has times from %d to %d, which are not its own", i, s.from, s.to)
			}
			whole.merge(s)
		}
		if whole.count != int64(n) || whole.low != low || whole.high != high || whole.from != from || whole.to != to {
			t.Fatalf("%+v, want %d values from %v to %v, times from %d to %d", whole, n, low, high, from, to)
		}
	}
}

func TestGapsAreFarLongerThanUsual(t *testing.T) {
	for name, c := range map[string]struct {
		steps []int64
		want  int64
	}{
		"regular":     {[]int64{10, 10, 10, 10, 10, 600, 10}, 40},
		"jitter":      {[]int64{900, 1100, 1000, 950, 1050, 5000}, 4 * 1100},
		"two values":  {[]int64{500}, 2000},
		"every other": {[]int64{1, 1000, 1, 1000}, 4000},
		"same times":  {[]int64{0, 0, 0}, 0},
	} {
		var v intervals
		at := noon.UnixMilli()
		v.add(at)
		for _, step := range c.steps {
			at += step
			v.add(at)
		}
		if got := v.gap(); got != c.want {
			t.Errorf("%s: a gap from %d on, want %d", name, got, c.want)
		}
	}
}

func TestWhatIsNotDrawnIsTold(t *testing.T) {
	p := &Plot{Title: "x"}
	for i := range MaxSeries + 3 {
		p.Add(strings.Repeat("s", i+1), 0, 1)
	}
	p.Add("s", 0, math.NaN())
	p.AddNotNumber()
	var out bytes.Buffer
	p.Draw(&out, Options{})
	for _, want := range []string{"3 values of further series", "2 non-numeric values"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// FuzzDraw: whatever the values, a plot has the size asked for, and its marks are values of the axis.
func FuzzDraw(f *testing.F) {
	f.Add(0.0, 1.0, int64(0), int64(1000), 80, 20)
	f.Add(math.MaxFloat64, -math.MaxFloat64, int64(math.MinInt64/4), int64(math.MaxInt64/4), 1, 1)
	f.Add(1.0, math.Nextafter(1, 2), int64(-62135596800000), int64(253402300799999), 1000, 3)
	f.Add(5e-324, 0.0, int64(1), int64(1), 30, 7)
	f.Fuzz(func(t *testing.T, a, b float64, at, to int64, width, height int) {
		const end = 253402300799999 // the year 9999
		p := &Plot{Title: "x"}
		p.Add("s", at%end, a)
		p.Add("s", to%end, b)
		if p.Empty() {
			return
		}
		rows := min(mostHeight, max(leastHeight, height%500))
		s := newScale(min(a, b), max(a, b), max(3, rows/3))
		for i := range s.marks {
			if at := s.at(i); at < s.low-s.step/1e6 || at > s.high+s.step/1e6 {
				t.Errorf("mark %v is not from %v to %v", at, s.low, s.high)
			}
		}
		var out bytes.Buffer
		p.Draw(&out, Options{Width: width % 1000, Height: height % 500})
		if lines := strings.Count(out.String(), "\n"); lines < rows+4 {
			t.Errorf("%d lines for a height of %d:\n%s", lines, rows, out.String())
		}
	})
}
