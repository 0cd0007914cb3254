package pipeline

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"waterwheel/bucketer"
)

// Estimates of memory. An encoded write takes encodedBytes for itself. The names of its fields take encodedNames times an
// average measurement, because an update names each field up to three times by its path. While a write is sent, it is in memory
// sentCopies times: as encoded, and in the driver's messages. A measurement that waits for a look-up will take awaitingBytes when
// it opens its bucket, and for its write.
const (
	encodedBytes  = 512
	encodedNames  = 4
	sentCopies    = 2
	awaitingBytes = 2048
)

// Bytes is the memory that the partition accounts for: its catalog, the memory that it has yet to take, the stored positions,
// dead letters, and the lists about them. It leaves out what a fetch has brought, because the runner tells the budget about that.
func (w *Worker) Bytes() int64 {
	bytes := w.deadLetters.size() + w.trackingBytes()
	if w.catalog != nil {
		bytes += w.catalog.Bytes() + w.yetToTake()
	}
	if c := w.term.segments.compaction; c != nil {
		bytes += sentCopies * c.bytes
		if c.read != nil {
			bytes += c.size
		}
	}
	if w.stored != nil {
		bytes += w.stored.Bytes()
	}
	return bytes
}

// yetToTake estimates how much more memory is taken without another fetch. The buckets of measurements that await look-ups and
// the encoded writes of the next flush need it. It counts from the beginning. Otherwise a flush, which is to free memory, would
// first exceed the budget.
func (w *Worker) yetToTake() int64 {
	stats := w.catalog.Stats()
	total := max(stats.AwaitingSeries, int64(len(w.lookups))) * awaitingBytes // each look-up may open a bucket
	if pending, bytes := w.catalog.Pending(); pending > 0 {
		waiting := min(int64(pending), stats.OpenBuckets)
		writes := int64(w.o.Bucketing.FlushOf(int(waiting)))
		share := bytes * writes / max(waiting, 1)
		total += sentCopies * (share + writes*(encodedBytes+encodedNames*bytes/int64(pending)))
	}
	return total
}

// trackingBytes is the memory of the lists that keep track of letters, refused measurements, look-ups and writes in flight.
func (w *Worker) trackingBytes() int64 {
	bytes := int64(cap(w.offsetTracker.deadLetters))*8 +
		int64(cap(w.rejected))*int64(unsafe.Sizeof(bucketer.Rejected{})) +
		int64(cap(w.lookups))*int64(unsafe.Sizeof(bucketer.Lookup{}))
	if w.flush != nil {
		bytes += w.flush.bytes() + (sentCopies-1)*int64(w.flush.cut.Bytes)
	}
	return bytes
}

// shrink gives memory back while the process is near or over its budget. It archives idle buckets, then drops archived ones.
// What still exceeds the target is flushed early (trigger), and nothing is fetched meanwhile (crowded).
func (w *Worker) shrink(m Moment) {
	if m.Target > 0 && w.Bytes() > m.Target {
		w.catalog.Expire(m.Target - (w.Bytes() - w.catalog.Bytes()))
	}
}

// over reports whether the partition must flush early, because its memory is above its target or that of the process above the
// limit. A small partition then flushes for its own sake, because it may not fetch before.
func (w *Worker) over(m Moment) bool { return m.Full || m.Target > 0 && w.Bytes() > m.Target }

// crowded reports whether memory forbids a fetch. A partition with nothing left to write may fetch all the same. A flush would
// not free its memory, so it would wait for ever.
func (w *Worker) crowded(m Moment) bool {
	if !w.over(m) {
		return false
	}
	_, waits := w.catalog.Oldest()
	return waits || w.flush != nil || !w.deadLetters.empty() || len(w.rejected) > 0
}

// headroom is the fraction of the limit (1/headroom) that stays free when partitions are told to shrink. Without it they would
// be told again at once.
const headroom = 16

// Budget bounds the memory of all partitions of the process together. When the sum is near the limit, each partition gets a
// target to shrink to. The target is the level at which the sum fits if only the larger partitions shrink to it. So the largest
// give memory back first, and a small partition is never slowed by a large one. A partition that could not reach its target,
// because its flush is under way, counts with its present size. The others give back its share meanwhile. While the sum exceeds
// the limit, a partition fetches only if it has nothing left to write.
//
// A fetch brings records that are unfolded in pieces. Each piece waits, in order of arrival, until there is room for the memory
// that it may take. Without such room, one small piece may be unfolded at a time. So no partition waits for ever, and each
// partition exceeds the limit by at most one small piece. A Budget is safe for concurrent use.
type Budget struct {
	limit int64

	mu        sync.Mutex
	used      map[*Worker]usage
	total     int64
	fetched   int64
	asking    []*reservation // in order of arrival
	granted   int            // reservations that were granted and not yet given back
	compactor *Worker        // the partition that compacts segments. Nil means that none does.
}

// reservation is the request of a partition that waits for room.
type reservation struct {
	worker *Worker
	ready  chan struct{} // closed when the request is granted
	bytes  int           // of records
}

// Bounds of a piece, that is, of the bytes of records that are unfolded at a time. A piece is the limit divided by pieceShare,
// but at least smallestPiece and at most largestPiece. A piece needs at most pieceFactor times its size, as long as records are
// not smaller than a hundred bytes. This covers each record with its series, its bucket and its write.
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
	fetched int64 // by a fetch, not yet taken by the worker
	found   int64 // by a look-up, not yet taken by the worker
	room    int64 // reserved for what the next piece becomes
	target  int64 // the last target. Zero means that there is none.
	firm    bool  // the partition could not shrink to its target
}

func (u usage) sum() int64 { return u.held + u.coming() }

// coming is the memory that the worker has not taken yet.
func (u usage) coming() int64 { return u.fetched + u.found + u.room }

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, used: map[*Worker]usage{}}
}

// change changes the memory of a partition. Afterwards there may be room for waiting reservations.
func (b *Budget) change(w *Worker, change func(u *usage)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[w]
	change(&u)
	b.set(w, u)
}

// Use sets the memory of a partition after it has followed its last target.
func (b *Budget) Use(w *Worker, bytes int64) {
	b.change(w, func(u *usage) { u.held, u.firm = bytes, u.target > 0 && bytes > u.target })
}

// Report sets the memory of a partition. It returns the partition's target, and whether the limit is exceeded. A target of zero
// means that the partition need not shrink.
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

// Fetched sets the bytes that a fetch has brought for a partition. It is called with zero once the worker has taken them.
func (b *Budget) Fetched(w *Worker, bytes int64) { b.change(w, func(u *usage) { u.fetched = bytes }) }

// Found sets the bytes that a look-up has brought for a partition. It is called with zero once the worker has taken them.
func (b *Budget) Found(w *Worker, bytes int64) { b.change(w, func(u *usage) { u.found = bytes }) }

// Share is how many bytes one fetch of a partition should bring at most. All partitions together get a quarter of the limit.
func (b *Budget) Share() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.limit/4/int64(max(len(b.used), 1)), smallestPiece)
}

// Reserve waits for room for the next piece and returns how many bytes of records it may have. Release gives the room back.
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

// Release sets the bytes that are left of a fetch after the worker has taken a piece, and gives the room for that piece back.
// Use has already reported the memory that the piece has become.
func (b *Budget) Release(w *Worker, left int64) {
	b.change(w, func(u *usage) {
		if u.room > 0 {
			b.granted--
		}
		u.fetched, u.room = left, 0
	})
}

// grant gives room to the reservations that have waited longest, as long as there is room. Without room it grants one small
// piece.
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
	b.Release(w, 0)
	b.change(w, func(u *usage) { *u = usage{} })
}

// set sets the memory of a partition, and gives room that has become free to reservations.
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

// wanted is the room that the oldest reservation waits for. Zero means that none waits.
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

// Compacts sets whether a partition compacts segments. If two partitions begin at the same moment, only the first is recorded.
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

// Total is the sum of the reported and the fetched memory, in bytes.
func (b *Budget) Total() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Fetching is the memory of fetched and found data that no worker has taken yet, with the room reserved for it, in bytes.
func (b *Budget) Fetching() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetched
}

// Limit is the bound, in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// level returns the target to which larger partitions must shrink for the sum to leave the headroom. It is at least 1.
// Partitions that could not reach their last target are left out. The asking partition is not, because it may be able to shrink
// by now.
func (b *Budget) level(asks *Worker) int64 {
	sizes := make([]int64, 0, len(b.used))
	left := b.limit - b.limit/headroom - b.wanted()
	for w, u := range b.used {
		left -= u.coming() // this memory goes without shrinking
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
