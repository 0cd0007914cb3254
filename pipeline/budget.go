package pipeline

import (
	"slices"
	"sync"
)

// Budget bounds the memory of all partitions of the process together. While the sum is over the limit, each partition is
// told the level that it must come down to: the level at which the sum is the limit when only the larger ones shrink. So
// the largest give first, and a small partition is never slowed by a large one. Safe for concurrent use.
type Budget struct {
	limit int64

	mu    sync.Mutex
	used  map[*Worker]int64
	total int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, used: map[*Worker]int64{}}
}

// Report sets what a partition uses, and returns its target: 0 while there is no need to shrink.
func (b *Budget) Report(w *Worker, bytes int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += bytes - b.used[w]
	b.used[w] = bytes
	if b.total <= b.limit {
		return 0
	}
	return b.level()
}

// Leave takes a partition out of the sum.
func (b *Budget) Leave(w *Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= b.used[w]
	delete(b.used, w)
}

// Total is the sum of what was reported, in bytes.
func (b *Budget) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Limit is the bound, in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// level is the largest level to which the partitions above it must shrink for the sum to be the limit; at least 1.
func (b *Budget) level() int64 {
	sizes := make([]int64, 0, len(b.used))
	for _, bytes := range b.used {
		sizes = append(sizes, bytes)
	}
	slices.Sort(sizes)
	left := b.limit
	for i, bytes := range sizes {
		share := left / int64(len(sizes)-i)
		if bytes > share {
			return max(share, 1)
		}
		left -= bytes
	}
	return max(left, 1)
}
