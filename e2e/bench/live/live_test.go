package live

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
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
	for i := range 100 { // one every 10 ms
		w.waiting[p] = append(w.waiting[p], begin.UnixMilli()+int64(10*i))
	}
	p.seen = begin.UnixMilli() + 490 // the first 50
	w.visible(p, begin.Add(time.Second))
	f := w.freshness()
	if f.Samples != 50 || f.Unseen != 50 || f.Max != time.Second || f.P50 != 760*time.Millisecond || f.P99 != time.Second {
		t.Errorf("%+v", f)
	}
	if text := f.String(); text != "0.76 / 0.95 / 1.00 / 1.00 (50 more not seen)" {
		t.Error(text)
	}
	w.visible(p, begin.Add(time.Minute)) // nothing new is visible
	if again := w.freshness(); again != f {
		t.Errorf("%+v, then %+v", f, again)
	}
}

func TestFiguresAreOfTheTimeBetweenTwoMoments(t *testing.T) {
	at := time.Now()
	r := Result{Case: Case{100, 1}}
	r.between(moment{at: at, produced: 50, counts: counts{100, 10, 0}, cpu: time.Second, server: time.Second, serverKnown: true},
		moment{at: at.Add(10 * time.Second), produced: 1050, counts: counts{1100, 110, 400}, cpu: 1500 * time.Millisecond, server: 3 * time.Second, serverKnown: true})
	if r.Produced != 100 || r.Stored != 100 || r.Writes != 10 || r.PerWrite != 10 || r.Compacted != 40 || r.CPU != 500 || *r.ServerCPU != 2000 || r.Behind() {
		t.Errorf("%+v", r)
	}
	r.Stored = 80
	if !r.Behind() {
		t.Errorf("80 of 100 a second are not said to be behind")
	}
}

func TestTableAndDrawings(t *testing.T) {
	server := 7.5
	results := []Result{
		{Case: Case{100, 0.1}, Way: Buckets, Produced: 10, Stored: 10, CPU: 20, Density: 3},
		{Case: Case{100, 1}, Way: Segments, Produced: 100, Stored: 50, Compacted: 40, CPU: 5, ServerCPU: &server, Density: 9, Trouble: "it did not end"},
		{Case: Case{100, 1}, Way: Plain, Produced: 100, Stored: 100, CPU: 6},
	}
	table := Table(results)
	for _, want := range []string{
		"| 100 | 0.1 | buckets | 10 | – | 20 µs | – |", "| 100 | 1 | segments | 50 **behind** | 40 | 5 µs | 7.5 µs |",
		"| 100 | 1 | plain | 100 | – | 6 µs |", "\n100 series of 1 Hz, segments: it did not end.\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("there is no %q in\n%s", want, table)
		}
	}
	names, err := Draw(t.TempDir(), results)
	if err != nil || strings.Join(names, " ") != "live-density-buckets.svg live-cost-buckets.svg live-density-segments.svg live-cost-segments.svg live-cost-plain.svg" {
		t.Errorf("drew %v, %v", names, err)
	}
}

func TestParseWays(t *testing.T) {
	if ways, err := ParseWays("plain,buckets"); err != nil || !slices.Equal(ways, []Way{Plain, Buckets}) {
		t.Errorf("%v, %v", ways, err)
	}
	for _, list := range []string{"", "plain,", "native", "plain,plain"} {
		if ways, err := ParseWays(list); err == nil {
			t.Errorf("%q is %v", list, ways)
		}
	}
}

// TestCompactionsAreMeasured checks that the measured time has room for two compactions, and for the deletion of ended segments.
func TestCompactionsAreMeasured(t *testing.T) {
	const lasting = 4 * time.Minute
	s := Segments.settings(lasting)
	if s["SEGMENTS"] != "on" || s["COMPACT_INTERVAL"] != "1m0s" || s["COMPACT_VISIBILITY_DELAY"] != "24s" || s["SEGMENT_RETENTION"] != "24s" {
		t.Errorf("%v", s)
	}
	if s := Buckets.settings(lasting); len(s) != 1 || s["SEGMENTS"] != "off" {
		t.Errorf("%v", s)
	}
}

func TestTallyOfDocuments(t *testing.T) {
	document := func(count int, sensor string, more ...bson.E) bson.Raw {
		d := bson.D{{Key: "control", Value: append(bson.D{{Key: "count", Value: int32(count)}}, more...)}}
		if sensor != "" {
			d = append(d, bson.E{Key: "meta", Value: bson.D{{Key: "sensor", Value: sensor}}})
		}
		raw, err := bson.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	segment := func(more ...bson.E) bson.E {
		return bson.E{Key: "segment", Value: append(bson.D{{Key: "owner", Value: "0/0"}}, more...)}
	}
	var got tally
	got.add(document(10, "sensor-1"))
	got.add(document(20, "sensor-2"))
	got.add(document(3, probePrefix+"0"))
	got.add(document(100, "", segment()))
	got.add(document(200, "", segment(bson.E{Key: "visibleUntil", Value: bson.DateTime(1)})))
	if want := (tally{buckets: 2, measurements: 30, probed: 3, inSegments: 100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
