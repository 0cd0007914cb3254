package bucketer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"waterwheel/internal/timeseries"
)

// orders returns orders in which buckets of a series may be archived.
func orders(n int) map[string][]int {
	ascending := make([]int, n)
	for i := range ascending {
		ascending[i] = i
	}
	descending := slices.Clone(ascending)
	slices.Reverse(descending)
	return map[string][]int{"ascending": ascending, "descending": descending, "shuffled": rand.New(rand.NewPCG(8, 9)).Perm(n)}
}

func archiveOf(order []int) archiveIndex {
	a := newArchiveIndex(0)
	for i, n := range order {
		at := timeseries.Position{Offset: int64(i)}
		a.add("s", timeseries.BucketID(timeseries.Source{}, at, 0, int64(n)), int64(n))
	}
	return a
}

// TestArchiveInAnyOrder checks that the time to archive, find or drop a bucket does not grow with the number of buckets, whether
// a backfill comes oldest or newest first.
func TestArchiveInAnyOrder(t *testing.T) {
	for name := range orders(1) {
		scalesWell(t, name, 2000, func(n int) time.Duration {
			order := orders(n)[name]
			start := time.Now()
			a := archiveOf(order)
			for time := range int64(n) {
				if _, _, ok := a.find("s", time, 1); !ok {
					t.Fatalf("%s: %d is not found", name, time)
				}
			}
			for a.live > 0 {
				a.dropOldest(&unseen{})
			}
			return time.Since(start)
		})
	}
}

func TestArchiveForgetsWhatIsRemoved(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, order := range orders(3000) {
		a, times := archiveOf(order), slices.Clone(order)
		slices.Sort(times)
		for range 2900 {
			i := random.IntN(len(times))
			id, _, ok := a.find("s", int64(times[i]), 1)
			if !ok {
				t.Fatalf("%s: %d is not found", name, times[i])
			}
			a.remove(id)
			if _, _, ok := a.find("s", int64(times[i]), 1); ok {
				t.Fatalf("%s: %d was removed, and is found", name, times[i])
			}
			times = slices.Delete(times, i, i+1)
		}
		if a.live != len(times) {
			t.Errorf("%s: %d are archived, want %d", name, a.live, len(times))
		}
	}
}
