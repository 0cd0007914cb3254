package bucketer

import (
	"slices"
	"sort"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// series is the set of measurements with the same normalised meta, compared byte by byte.
type series struct {
	key  string  // the meta's type byte and its bytes; empty without a meta
	open *bucket // the most recently used open bucket
	more *more   // nil most of the time
}

// more is the state that only unusual situations of a series need.
type more struct {
	others   []*bucket // the other open buckets, which have other combinations of types, the most recently used first
	rolled   rolled
	excluded []bson.ObjectID // not to be reopened before an open bucket has rolled over

	parked line    // measurements that wait for the answer to wanted
	wanted *wanted // Nil means that there is no question.

	conflicts int   // consecutive ones
	notBefore int64 // by the caller's clock: Prepare leaves the series out until then
}

// meta returns the meta as a BSON value with bytes of its own.
func (s *series) meta() bson.RawValue {
	if len(s.key) == 0 {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: bson.Type(s.key[0]), Value: []byte(s.key[1:])}
}

func (s *series) isParked() bool { return s.more != nil && s.more.wanted != nil }

// excludes reports whether the series must not reopen a bucket.
func (s *series) excludes(id bson.ObjectID) bool {
	return s.more != nil && slices.Contains(s.more.excluded, id)
}

// isOrdinary reports whether the series needs none of this state.
func (x *more) isOrdinary() bool {
	return x == nil || len(x.others) == 0 && x.rolled.live == 0 && len(x.excluded) == 0 && x.wanted == nil && x.conflicts == 0
}

// alternate returns a bucket that has rolled over by time, is not completely written, and does not clash with a measurement of
// its window. Among several it prefers the largest minimum time, and then the bucket that rolled over first.
func (s *series) alternate(time, span int64, elements []byte) (*bucket, survey) {
	if s.more == nil {
		return nil, survey{}
	}
	for b := range s.more.rolled.before(time) {
		if spanExceeded(time, b.minTime, span) {
			break
		}
		if b.is(isGone) || b.action != softClose && b.action != archive {
			continue
		}
		if v := b.shape.survey(elements); v.match != clashes {
			return b, v
		}
	}
	return nil, survey{}
}

// roll adds a bucket that has rolled over.
func (x *more) roll(b *bucket) {
	x.rolled.add(b)
	b.set(isRolled)
}

// unroll accounts for a bucket that is gone, if it had rolled over.
func (x *more) unroll(b *bucket) {
	if b.is(isRolled) {
		x.rolled.drop()
	}
}

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
