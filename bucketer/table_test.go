package bucketer

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestTableIsAMap adds, finds and removes random series and compares the table with a map. Many series share slots.
func TestTableIsAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, keys := range []int{1, 7, 100, 3000} {
		series, want := newTable(), map[string]*series{}
		for range 20 * keys {
			key := fmt.Sprint(random.IntN(keys))
			switch s := want[key]; {
			case s == nil:
				s = newSeries(key)
				series.add(s)
				want[key] = s
			case random.IntN(3) > 0:
				if !series.remove(s) || series.remove(s) {
					t.Fatalf("%q is not removed once", key)
				}
				delete(want, key)
			}
			if random.IntN(500) == 0 {
				series.shrink()
			}
			compareTable(t, &series, want, keys)
		}
		for _, s := range want {
			series.remove(s)
		}
		if series.shrink(); len(series.slots) != minSlots || series.live != 0 {
			t.Errorf("%d slots are left, for %d series", len(series.slots), series.live)
		}
	}
}

func newSeries(key string) *series { return &series{key: key} }

// compareTable compares a table with a map, as a whole or, if there are many keys, in part.
func compareTable(t *testing.T, got *table, want map[string]*series, keys int) {
	t.Helper()
	for i := range min(keys, 20) {
		key := fmt.Sprint(i)
		if s := got.find([]byte(key)); s != want[key] {
			t.Fatalf("%q is %v, want %v", key, s, want[key])
		}
	}
	if got.live != len(want) {
		t.Fatalf("%d series, want %d", got.live, len(want))
	}
	if keys > 100 {
		return
	}
	n := 0
	for s := range got.all() {
		if n++; want[s.key] != s {
			t.Fatalf("%q is not there", s.key)
		}
	}
	if n != len(want) {
		t.Fatalf("%d series are listed, want %d", n, len(want))
	}
}
