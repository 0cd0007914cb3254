package bucketer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

var (
	streams = flag.Int("streams", 300, "random streams of TestModel and of TestStoredOnce")
	seed    = flag.Uint64("seed", 1, "seed of their first stream; each further one has the next")
)

// eachStream runs a test for each seed, on all processors, until one fails. A stream depends only on its seed.
func eachStream(t *testing.T, test func(t *testing.T, seed uint64)) {
	var taken, passed atomic.Int64
	t.Cleanup(func() { t.Logf("passed %d of %d streams from seed %d", passed.Load(), *streams, *seed) })
	for shard := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("shard=", shard), func(s *testing.T) {
			s.Parallel()
			for !t.Failed() {
				n := taken.Add(1) - 1
				if n >= int64(*streams) {
					return
				}
				runStream(s, *seed+uint64(n), test)
				if !s.Failed() {
					passed.Add(1)
				}
			}
		})
	}
}

// runStream reports the seed of a stream that fails or panics.
func runStream(t *testing.T, seed uint64, test func(t *testing.T, seed uint64)) {
	returned := false
	defer func() {
		if !returned || t.Failed() {
			t.Errorf("with -streams 1 -seed %d", seed)
		}
	}()
	test(t, seed)
	returned = true
}

// steps returns the length of a stream. Most streams are short, because most bugs show within few steps. One in twenty is up to
// most steps longer.
func steps(random *rand.Rand, most int) int {
	if random.IntN(20) == 0 {
		return 20 + random.IntN(most)
	}
	return 10 + random.IntN(31)
}
