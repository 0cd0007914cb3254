package bucketer

import (
	"slices"
	"sort"
)

// rolledChunk is the largest number of buckets in a chunk.
const rolledChunk = 512

// rolled holds the buckets of a series that are no longer open and not completely written. They are sorted by minimum time, and
// for equal times the newest comes first. So a late measurement finds its bucket without a look at all of them. Chunks make an
// insertion as fast at the front, where the buckets of a backfill go, as at the end. Gone buckets are removed many at a time.
type rolled struct {
	chunks [][]*bucket // none is empty
	all    int         // including gone ones
	live   int
}

// add adds a bucket.
func (l *rolled) add(b *bucket) {
	l.all++
	l.live++
	n := sort.Search(len(l.chunks), func(i int) bool {
		chunk := l.chunks[i]
		return chunk[len(chunk)-1].minTime >= b.minTime
	})
	if n == len(l.chunks) {
		if n == 0 {
			l.chunks = append(l.chunks, []*bucket{b})
			return
		}
		n--
	}
	chunk := l.chunks[n]
	at := sort.Search(len(chunk), func(i int) bool { return chunk[i].minTime >= b.minTime })
	if len(chunk) == rolledChunk {
		half := slices.Clone(chunk[rolledChunk/2:])
		clear(chunk[rolledChunk/2:])
		chunk = chunk[:rolledChunk/2]
		l.chunks[n] = chunk
		l.chunks = slices.Insert(l.chunks, n+1, half)
		if at > len(chunk) {
			n, at, chunk = n+1, at-len(chunk), half
		}
	}
	l.chunks[n] = slices.Insert(chunk, at, b)
}

// before yields the buckets with minimum times that are not after a time, the latest first.
func (l *rolled) before(time int64) func(yield func(*bucket) bool) {
	return func(yield func(*bucket) bool) {
		n := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i][0].minTime > time }) - 1
		for ; n >= 0; n-- {
			chunk := l.chunks[n]
			at := sort.Search(len(chunk), func(i int) bool { return chunk[i].minTime > time })
			for at--; at >= 0; at-- {
				if !yield(chunk[at]) {
					return
				}
			}
		}
	}
}

// drop accounts for a bucket that is gone, and removes the gone buckets when they are more than half.
func (l *rolled) drop() {
	if l.live--; l.live >= l.all/2 {
		return
	}
	kept := l.chunks[:0]
	for _, chunk := range l.chunks {
		if chunk = slices.DeleteFunc(chunk, func(b *bucket) bool { return b.is(isGone) }); len(chunk) > 0 {
			kept = append(kept, chunk)
		}
	}
	clear(l.chunks[len(kept):])
	l.chunks, l.all = kept, l.live
}
