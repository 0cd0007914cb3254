package verify_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"waterwheel/internal/verify"
)

// TestBoundsAreTheWritersOwn compares the catalog's bounds of nested and changing values with those computed from the columns
// here.
func TestBoundsAreTheWritersOwn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		w := newWorld(t)
		for i := range 60 {
			w.produce(fmt.Sprintf(`{"time":%d,"meta":%d,"a":%s,"b":%s}`, noon+random.Int64N(2_000_000), i%2, value(random, 3), value(random, 3)))
			if random.IntN(5) == 0 {
				w.flush()
			}
		}
		w.flush()
		if r := w.verify(content); r.Wrong() || r.StoredOnce != 60 {
			t.Fatalf("%+v", r)
		}
		w.double(w.ids()[len(w.docs)/2])
		if r := w.verify(repair); r.Wrong() || r.Repair.Repaired == 0 {
			t.Fatalf("repair: %+v", r)
		}
	}
}

// value returns a random JSON value.
func value(random *rand.Rand, depth int) string {
	switch random.IntN(3 + min(depth, 2)) {
	case 0:
		return fmt.Sprint(random.IntN(20) - 10)
	case 1:
		return fmt.Sprintf("%d.5", random.IntN(20)-10)
	case 2:
		return []string{`"a"`, `"bcd"`, `""`, `true`, `null`, `1e300`}[random.IntN(6)]
	case 3:
		items := make([]string, random.IntN(4))
		for i := range items {
			items[i] = value(random, depth-1)
		}
		return "[" + strings.Join(items, ",") + "]"
	default:
		var members []string
		for _, name := range []string{"x", "y", "z"} {
			if random.IntN(2) == 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, value(random, depth-1)))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
}

var _ verify.Buckets = (*world)(nil)
