package pipeline

import (
	"context"
	"slices"
	"sync"
)

// headroom is the part of the limit that is left free when partitions are told to shrink, so that they need not be told
// again at once.
const headroom = 16

// Budget bounds the memory of all partitions of the process together. While the sum is near the limit, each partition is
// told the level that it must come down to: the one at which the sum fits when only the larger ones shrink. So the largest
// give first, and a small partition is never slowed by a large one. One that could not come down to its level (its flush is
// under way) counts as it is for the others' level: meanwhile they give what it cannot. Over the limit a partition
// fetches only if it has nothing left to write.
//
// What a fetch brings is unfolded in pieces, and each piece waits until there is room for what may become of it, in the order
// in which they came. While there is none, a small one may be unfolded all the same, one at a time: so nobody waits for ever,
// and the limit is exceeded by one small piece a partition at most. Safe for concurrent use.
type Budget struct {
	limit int64

	mu        sync.Mutex
	used      map[*Worker]usage
	total     int64
	fetched   int64
	asking    []*reservation // by age
	granted   int            // reservations that were granted and are not given back yet
	compactor *Worker        // who compacts segments. Nil means that nobody does.
}

// reservation is a partition that waits for room.
type reservation struct {
	worker *Worker
	ready  chan struct{} // closed when it is granted
	bytes  int           // of records
}

// The bytes of records that are unfolded at a time: at most largestPiece and pieceShare of the limit, at least
// smallestPiece. Each becomes pieceFactor times as much at most, as long as records are not smaller than a hundred bytes: a
// record with its series, its bucket, and its write.
const (
	largestPiece  = 1 << 20
	smallestPiece = 16 << 10
	pieceShare    = 256
	pieceFactor   = 20
)

// PieceBytes is how many bytes of records are unfolded at a time under a budget of limit bytes.
func PieceBytes(limit int64) int {
	return int(min(max(limit/pieceShare, smallestPiece), largestPiece))
}

// usage is the memory of one partition, in bytes.
type usage struct {
	held    int64 // Worker.Bytes
	fetched int64 // by a fetch, and not taken by the worker yet
	found   int64 // by a look-up, likewise
	room    int64 // reserved for what becomes of the piece that it is to take next
	target  int64 // that it was told last. Zero means none.
	firm    bool  // it could not come down to its target
}

func (u usage) sum() int64 { return u.held + u.coming() }

// coming is what the worker does not have yet.
func (u usage) coming() int64 { return u.fetched + u.found + u.room }

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
	if b.total+b.wanted() > b.limit-b.limit/headroom {
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

// Share is how many bytes a fetch of one partition should bring at most: all of them together a quarter of the limit.
func (b *Budget) Share() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.limit/4/int64(max(len(b.used), 1)), smallestPiece)
}

// Reserve waits for room to take the next piece in, and returns how many bytes of records it may have. Release gives it back.
func (b *Budget) Reserve(ctx context.Context, w *Worker) (bytes int, err error) {
	r := &reservation{worker: w, ready: make(chan struct{})}
	b.mu.Lock()
	b.asking = append(b.asking, r)
	b.grant()
	b.mu.Unlock()
	select {
	case <-r.ready:
		return r.bytes, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking = slices.DeleteFunc(b.asking, func(other *reservation) bool { return other == r })
	b.grant()
	return 0, context.Cause(ctx) // Release gives back memory that was granted meanwhile.
}

// Release sets what is left of a fetch after the worker has taken a piece of it, and gives back the room for that: Use has
// told by now what became of it.
func (b *Budget) Release(w *Worker, left int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[w]
	if u.room > 0 {
		b.granted--
	}
	u.fetched, u.room = left, 0
	b.set(w, u)
}

// grant lets those unfold their pieces who have waited longest, as far as there is room, or else one of them a small one.
func (b *Budget) grant() {
	for len(b.asking) > 0 {
		r := b.asking[0]
		r.bytes = PieceBytes(b.limit)
		if b.total+int64(r.bytes)*pieceFactor > b.limit {
			if b.granted > 0 {
				return
			}
			r.bytes = smallestPiece
		}
		b.asking = b.asking[1:]
		u := b.used[r.worker]
		u.room = int64(r.bytes) * pieceFactor
		b.granted++
		b.add(r.worker, u)
		close(r.ready)
	}
}

// Leave takes a partition out of the sum.
func (b *Budget) Leave(w *Worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used[w].room > 0 {
		b.granted--
	}
	b.set(w, usage{})
}

// set changes what a partition uses, after which there may be room for those who wait for it.
func (b *Budget) set(w *Worker, now usage) {
	b.add(w, now)
	b.grant()
}

func (b *Budget) add(w *Worker, now usage) {
	before := b.used[w]
	b.total += now.sum() - before.sum()
	b.fetched += now.coming() - before.coming()
	if b.used[w] = now; now.sum() == 0 {
		delete(b.used, w)
	}
}

// wanted is the room that the one who has waited longest waits for.
func (b *Budget) wanted() int64 {
	if len(b.asking) == 0 {
		return 0
	}
	return int64(PieceBytes(b.limit)) * pieceFactor
}

// OthersCompact reports whether another partition than w compacts segments.
func (b *Budget) OthersCompact(w *Worker) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.compactor != nil && b.compactor != w
}

// Compacts sets whether a partition compacts segments. Two may begin at the same moment; then one of them is known.
func (b *Budget) Compacts(w *Worker, compacts bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case compacts && b.compactor == nil:
		b.compactor = w
	case !compacts && b.compactor == w:
		b.compactor = nil
	}
}

// Total is the sum of what was reported and fetched, in bytes.
func (b *Budget) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Fetching is the memory of what was fetched or found and not taken by its worker yet, and of what may become of it, in bytes.
func (b *Budget) Fetching() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetched
}

// Limit is the bound, in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// level is the largest level to which the partitions above it must shrink for the sum to leave the headroom, at least 1.
// Partitions that cannot are left out, but not the asking partition: it may be able to by now.
func (b *Budget) level(asks *Worker) int64 {
	sizes := make([]int64, 0, len(b.used))
	left := b.limit - b.limit/headroom - b.wanted()
	for w, u := range b.used {
		left -= u.coming() // it goes by itself
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
