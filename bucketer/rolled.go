package bucketer

import (
	"slices"
	"sort"
)

// rolledChunk is how many buckets a chunk holds at most.
const rolledChunk = 512

// rolled are buckets of a series that are no longer open, but of which something is not written yet: by their minimum
// times, of the same time the newest first. A late measurement finds its bucket without a look at them all. They are kept
// in chunks, so that one goes in as fast at the front, where the buckets of a backfill go, as at the end. Buckets that are gone are taken
// out many at a time.
type rolled struct {
	chunks [][]*bucket // none is empty
	all    int         // with those gone
	live   int
}

// add takes a bucket in.
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

// before yields the buckets whose minimum times are not after a time, the latest first.
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

// drop takes out a bucket that is gone.
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
