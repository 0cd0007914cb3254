package bucketer

import (
	"flag"
	"runtime"
	"testing"
)

var memorySeries = flag.Int("series", 50_000, "open buckets of TestMemory")

// heap returns the number of reachable bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestMemory measures an idle open bucket of five numeric fields and an archived one on the heap. It compares them with the
// catalog's own accounting and with the promised bounds.
func TestMemory(t *testing.T) {
	o := testOptions(t)
	o.Reopen = true
	n := newNumeric(*memorySeries)
	before := heap()
	c := New(o)
	for range *memorySeries {
		n.insert(t, c, 1)
		if c.lookups.series == 1000 {
			loadNothing(c)
			flushAll(c)
		}
	}
	loadNothing(c)
	flushAll(c)
	c.buffers.trim()
	c.bounds.trim()
	checkMemory(t, c, heap()-before, "open bucket", 700)
	for c.idle.oldest != nil {
		c.expireBucket(c.idle.oldest)
	}
	c.bounds.trim()
	c.shrink()
	if c.archive.live != *memorySeries {
		t.Errorf("%d buckets are archived, want %d", c.archive.live, *memorySeries)
	}
	checkMemory(t, c, heap()-before, "archived bucket", 150)
	runtime.KeepAlive(n)
}

// loadNothing answers all look-ups with no bucket.
func loadNothing(c *Catalog) {
	for lookups := c.Lookups(1000); len(lookups) > 0; lookups = c.Lookups(1000) {
		for _, l := range lookups {
			c.Load([]Answer{{Lookup: l}})
		}
	}
}

func checkMemory(t *testing.T, c *Catalog, used int64, what string, limit int64) {
	t.Helper()
	each := used / int64(*memorySeries)
	t.Logf("%d times: an %s takes %d bytes of the heap, %d are accounted for", *memorySeries, what, each,
		c.Bytes()/int64(*memorySeries))
	if each > limit {
		t.Errorf("an %s takes %d bytes, want at most %d", what, each, limit)
	}
	if ratio := float64(c.Bytes()) / float64(used); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("%d bytes are accounted for of %d", c.Bytes(), used)
	}
}
