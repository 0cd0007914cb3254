package pipeline

import (
	"slices"
	"sync"
)

// headroom is the part of the limit that is left free when partitions are told to shrink, so that they need not be told
// again at once.
const headroom = 16

// Budget bounds the memory of all partitions of the process together. While the sum is near the limit, each partition is
// told the level that it must come down to: the one at which the sum fits when only the larger ones shrink. So the largest
// give first, and a small partition is never slowed by a large one. Over the limit nobody fetches of whom something waits
// to be written; since each has one fetch under way at most, the limit is never exceeded by more than what one fetch a
// partition brings. Safe for concurrent use.
type Budget struct {
	limit int64

	mu      sync.Mutex
	used    map[*Worker]usage
	total   int64
	fetched int64
}

// usage is the memory of one partition, in bytes.
type usage struct {
	held    int64 // Worker.Bytes
	fetched int64 // by a fetch that the worker has not taken yet
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, used: map[*Worker]usage{}}
}

// Use sets what a partition uses.
func (b *Budget) Use(w *Worker, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(w, usage{held: bytes, fetched: b.used[w].fetched})
}

// Report is Use, and returns the partition's target, 0 while there is no need to shrink, and whether the limit is
// exceeded.
func (b *Budget) Report(w *Worker, bytes int64) (target int64, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(w, usage{held: bytes, fetched: b.used[w].fetched})
	if b.total <= b.limit-b.limit/headroom {
		return 0, false
	}
	return b.level(), b.total > b.limit
}

// Fetched sets what a fetch has brought for a partition, until the worker has taken it: then 0.
func (b *Budget) Fetched(w *Worker, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(w, usage{held: b.used[w].held, fetched: bytes})
}

// Leave takes a partition out of the sum.
func (b *Budget) Leave(w *Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(w, usage{})
}

func (b *Budget) set(w *Worker, now usage) {
	before := b.used[w]
	b.total += now.held + now.fetched - before.held - before.fetched
	b.fetched += now.fetched - before.fetched
	if b.used[w] = now; now == (usage{}) {
		delete(b.used, w)
	}
}

// Total is the sum of what was reported and fetched, in bytes.
func (b *Budget) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Fetching is the memory of what was fetched and not taken by its worker yet, in bytes.
func (b *Budget) Fetching() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetched
}

// Limit is the bound, in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// level is the largest level to which the partitions above it must shrink for the sum to leave the headroom; at least 1.
func (b *Budget) level() int64 {
	sizes := make([]int64, 0, len(b.used))
	left := b.limit - b.limit/headroom
	for _, u := range b.used {
		sizes = append(sizes, u.held)
		left -= u.fetched // it goes by itself
	}
	slices.Sort(sizes)
	for i, bytes := range sizes {
		share := left / int64(len(sizes)-i)
		if bytes > share {
			return max(share, 1)
		}
		left -= bytes
	}
	return max(left, 1)
}
