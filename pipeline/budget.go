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
// give first, and a small partition is never slowed by a large one. One that could not come down to its level (its flush is
// under way) counts as it is for the others' level: meanwhile they give what it cannot. Over the limit nobody fetches of whom something waits
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
	found   int64 // by a look-up, likewise
	target  int64 // that it was told last, 0: none
	firm    bool  // it could not come down to its target
}

func (u usage) sum() int64 { return u.held + u.fetched + u.found }

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, used: map[*Worker]usage{}}
}

// Use sets what a partition uses, after it heeded the target it was told last.
func (b *Budget) Use(w *Worker, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[w]
	u.held, u.firm = bytes, u.target > 0 && bytes > u.target
	b.set(w, u)
}

// Report sets what a partition uses, and returns its target, 0 while there is no need to shrink, and whether the limit is
// exceeded.
func (b *Budget) Report(w *Worker, bytes int64) (target int64, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[w]
	u.held, u.target = bytes, 0
	b.set(w, u)
	if b.total > b.limit-b.limit/headroom {
		u.target = b.level(w)
		b.set(w, u)
	}
	return u.target, b.total > b.limit
}

// Fetched sets what a fetch has brought for a partition, until the worker has taken it: then 0.
func (b *Budget) Fetched(w *Worker, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[w]
	u.fetched = bytes
	b.set(w, u)
}

// Found sets what a look-up has brought for a partition, until the worker has taken it: then 0.
func (b *Budget) Found(w *Worker, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[w]
	u.found = bytes
	b.set(w, u)
}

// Leave takes a partition out of the sum.
func (b *Budget) Leave(w *Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(w, usage{})
}

func (b *Budget) set(w *Worker, now usage) {
	before := b.used[w]
	b.total += now.sum() - before.sum()
	b.fetched += now.fetched + now.found - before.fetched - before.found
	if b.used[w] = now; now.sum() == 0 {
		delete(b.used, w)
	}
}

// Total is the sum of what was reported and fetched, in bytes.
func (b *Budget) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Fetching is the memory of what was fetched or found and not taken by its worker yet, in bytes.
func (b *Budget) Fetching() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetched
}

// Limit is the bound, in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// level is the largest level to which the partitions above it must shrink for the sum to leave the headroom, at least 1.
// Those that cannot are left out, but not the one that asks: it may be able to by now.
func (b *Budget) level(asks *Worker) int64 {
	sizes := make([]int64, 0, len(b.used))
	left := b.limit - b.limit/headroom
	for w, u := range b.used {
		left -= u.fetched + u.found // it goes by itself
		if u.firm && w != asks {
			left -= u.held
			continue
		}
		sizes = append(sizes, u.held)
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
