package continuity

import (
	"slices"
	"testing"
	"time"

	"waterwheel/e2e/bench"
)

// at returns a time in seconds from the beginning of a test.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func moments(seconds ...float64) (all []time.Time) {
	for _, s := range seconds {
		all = append(all, at(s))
	}
	return all
}

func TestLongestGap(t *testing.T) {
	writes := moments(0, 5, 10, 30, 35)
	for name, c := range map[string]struct {
		writes   []time.Time
		from, to float64
		want     time.Duration
	}{
		"within":                              {writes, 7, 36, 20 * time.Second},
		"begins before":                       {writes, 12, 36, 20 * time.Second},
		"has not ended":                       {writes, 12, 20, 10 * time.Second},
		"since the last write":                {writes, 31, 60, 25 * time.Second},
		"before all that matters":             {writes, 30, 36, 5 * time.Second},
		"until a write that comes at the end": {writes, 7, 30, 20 * time.Second},
		"no write":                            {nil, 7, 10, 3 * time.Second},
		"no write before":                     {moments(9), 7, 10, 2 * time.Second},
	} {
		if got := longestGap(c.writes, at(c.from), at(c.to)); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

func TestGapOfSomePartitions(t *testing.T) {
	writes := [][]time.Time{moments(1, 2, 3, 9), moments(1, 8), moments(1, 2, 3, 4, 5, 6, 7, 8, 9), moments(1)}
	got := gapOf(writes, at(1), at(10), func(p int32) bool { return p < 3 })
	if want := (Gap{Partitions: 3, Partition: 1, Longest: 7 * time.Second, Least: time.Second}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if text := got.String(); text != "1.0–7.0 (3)" {
		t.Error(text)
	}
	if none := gapOf(writes, at(1), at(10), func(int32) bool { return false }); none != (Gap{}) || none.String() != "–" {
		t.Errorf("of no partitions: %+v, %s", none, none)
	}
}

func TestFreshnessIsOfWhatWasSeenBetweenTwoMoments(t *testing.T) {
	samples := []sample{{at(0), time.Hour}, {at(21), time.Hour}}
	for i := range 100 {
		samples = append(samples, sample{at(1 + float64(i)/10), time.Duration(100-i) * time.Second})
	}
	got := freshnessOf(samples, at(0), at(20))
	if want := (bench.Freshness{Samples: 100, P50: 51 * time.Second, P90: 90 * time.Second, P99: 99 * time.Second, Max: 100 * time.Second}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if text := got.String(); text != "51.00 / 90.00 / 99.00 / 100.00" {
		t.Error(text)
	}
	if none := freshnessOf(samples, at(30), at(40)); none != (bench.Freshness{}) || none.String() != "–" {
		t.Errorf("of nothing: %+v, %s", none, none)
	}
}

// TestLooksMakeWritesAndSamples checks that a look that finds a newer offset counts as a write to the partition. Each offset up
// to it becomes one sample.
func TestLooksMakeWritesAndSamples(t *testing.T) {
	w := &watch{newest: []int64{-1, -1}, writes: make([][]time.Time, 2), waiting: make([][]made, 2)}
	for offset := range int64(10) {
		w.acknowledged(0, offset, at(float64(offset)))
	}
	w.saw(nil, at(1))
	w.saw(map[int32]int64{0: 3}, at(12))
	w.saw(nil, at(13))
	if !slices.EqualFunc(w.writes[0], moments(12), time.Time.Equal) || w.writes[1] != nil || len(w.looks) != 3 {
		t.Errorf("writes at %v, looks at %v", w.writes, w.looks)
	}
	if want := []sample{{at(12), 12 * time.Second}, {at(12), 11 * time.Second}, {at(12), 10 * time.Second}, {at(12), 9 * time.Second}}; !slices.Equal(w.samples, want) {
		t.Errorf("samples %v, not %v", w.samples, want)
	}
	if w.writtenSince(at(0), 1) {
		t.Error("a partition without a write was written to")
	}
	w.saw(map[int32]int64{1: 0}, at(14))
	if !w.writtenSince(at(11), 1) || w.writtenSince(at(12), 1) || w.writtenSince(at(0), 2) {
		t.Errorf("writes at %v are taken for others", w.writes)
	}
}
