package bucketer

import (
	"encoding/binary"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// archived is a stored bucket that is not in memory and whose _id is known. The archived buckets of a series form a tree.
type archived struct {
	id      bson.ObjectID
	earlier int32 // root of the buckets with smaller minimum times, or none
	minTime int64
	series  uint64 // hash of the series' key
	later   int32  // root of the buckets with larger minimum times, or none
	gone    bool
}

const (
	archivedBytes = int64(unsafe.Sizeof(archived{}))
	rootSlot      = 16 // uint64, int32
	placeSlot     = 16 // ObjectID, int32
)

// archiveIndex holds the archived buckets in the order in which they were archived. It knows their series by a hash only. Two
// series with the same hash may find each other's buckets, which their look-ups then refuse.
type archiveIndex struct {
	entries []archived // the first one stands for none
	live    int
	roots   map[uint64]int32 // of the trees, by the hash of the series
	places  map[bson.ObjectID]int32
	peak    int // the most live entries so far, which bounds the maps' memory
}

// newArchiveIndex returns an empty index with room for some entries.
func newArchiveIndex(room int) archiveIndex {
	entries := append(make([]archived, 0, 1+room), archived{gone: true})
	return archiveIndex{entries: entries, roots: map[uint64]int32{}, places: map[bson.ObjectID]int32{}}
}

func (a *archiveIndex) bytes() int64 {
	return int64(cap(a.entries))*archivedBytes + mapBytes(a.peak, rootSlot) + mapBytes(a.peak, placeSlot)
}

// hashOf is FNV-1a, so that the hash is the same in every process.
func hashOf(key string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(key) {
		hash = (hash ^ uint64(key[i])) * 1099511628211
	}
	return hash
}

// find returns the series' bucket with the largest minimum time that is not after time, if its window holds that time.
func (a *archiveIndex) find(key string, time, span int64) (id bson.ObjectID, minTime int64, ok bool) {
	if a.live == 0 {
		return id, 0, false
	}
	at := a.latest(a.roots[hashOf(key)], time)
	if at == none {
		return id, 0, false
	}
	e := &a.entries[at]
	return e.id, e.minTime, !spanExceeded(time, e.minTime, span)
}

// add archives a bucket. False means that the series has an archived bucket of the same minimum time, which stays.
func (a *archiveIndex) add(key string, id bson.ObjectID, minTime int64) bool {
	hash := hashOf(key)
	root := a.roots[hash]
	if known := a.latest(root, minTime); known != none && a.entries[known].minTime == minTime {
		return false
	}
	at := int32(len(a.entries))
	a.entries = append(a.entries, archived{id: id, minTime: minTime, series: hash})
	a.setRoot(hash, a.insert(root, at))
	a.places[id] = at
	a.live++
	a.peak = max(a.peak, a.live)
	return true
}

func (a *archiveIndex) setRoot(hash uint64, root int32) {
	if root == none {
		delete(a.roots, hash)
		return
	}
	a.roots[hash] = root
}

// holdsForOther reports whether a bucket is archived for another series than that of the key.
func (a *archiveIndex) holdsForOther(key string, id bson.ObjectID) bool {
	at, ok := a.places[id]
	return ok && a.entries[at].series != hashOf(key)
}

// holds reports whether a bucket is archived.
func (a *archiveIndex) holds(id bson.ObjectID) bool {
	_, ok := a.places[id]
	return ok
}

// remove forgets an archived bucket. It does nothing for any other bucket.
func (a *archiveIndex) remove(id bson.ObjectID) {
	if at, ok := a.places[id]; ok {
		a.unlink(at)
		if len(a.entries) > 2*a.live+64 {
			a.compact()
		}
	}
}

func (a *archiveIndex) unlink(at int32) {
	e := &a.entries[at]
	a.setRoot(e.series, a.without(a.roots[e.series], at))
	e.gone = true
	delete(a.places, e.id)
	a.live--
}

// compact rebuilds the index without entries that are gone.
func (a *archiveIndex) compact() {
	moved := make([]int32, len(a.entries))
	compacted := newArchiveIndex(a.live)
	for at, e := range a.entries {
		if !e.gone {
			moved[at] = int32(len(compacted.entries))
			compacted.places[e.id] = moved[at]
			compacted.entries = append(compacted.entries, e)
		}
	}
	for at := range compacted.entries {
		e := &compacted.entries[at]
		e.earlier, e.later = moved[e.earlier], moved[e.later]
	}
	for hash, root := range a.roots {
		compacted.roots[hash] = moved[root]
	}
	compacted.live, compacted.peak = a.live, a.live
	*a = compacted
}

// dropOldest forgets about a quarter of the archived buckets, in the order in which they were archived, and counts them among
// the unseen. It returns how many.
func (a *archiveIndex) dropOldest(to *unseen) int {
	dropped := min(a.live, a.live/4+1)
	for at, left := 0, dropped; left > 0; at++ {
		if e := &a.entries[at]; !e.gone {
			to.add(e.minTime)
			a.unlink(int32(at))
			left--
		}
	}
	a.compact()
	return dropped
}

// dropAll forgets all archived buckets, which count among the unseen.
func (a *archiveIndex) dropAll(to *unseen) {
	for at := range a.entries {
		if e := &a.entries[at]; !e.gone {
			to.add(e.minTime)
		}
	}
	*a = newArchiveIndex(0)
}

// archiveBucket archives a stored bucket that the caller then drops. False means that a full or closed bucket cannot be
// reopened, or that Reopen is off.
func (c *Catalog) archiveBucket(b *bucket) bool {
	if !c.options.Reopen || b.stored == 0 || b.is(isClosed) {
		return false
	}
	return c.archive.add(b.series.key, b.id, b.minTime)
}

// The archived buckets of a series form a treap. It is a search tree by minimum time, and also a heap by a random number of
// each entry. Its depth is some twice the least one, in whatever order buckets are archived. A backfill may come newest first.
// A treap takes no memory except two indexes per entry.

// none is the index of no entry.
const none = int32(0)

// chance is the entry's number in the heap. The bytes of an _id behind its time are part of a hash.
func (e *archived) chance() uint64 { return binary.BigEndian.Uint64(e.id[4:]) }

// latest is the entry with the largest minimum time that is not after time.
func (a *archiveIndex) latest(root int32, time int64) int32 {
	found := none
	for at := root; at != none; {
		if e := &a.entries[at]; e.minTime <= time {
			found, at = at, e.later
		} else {
			at = e.earlier
		}
	}
	return found
}

// insert adds an entry to a tree that has none of its minimum time, and returns the root.
func (a *archiveIndex) insert(root, at int32) int32 {
	e := &a.entries[at]
	if root == none {
		return at
	}
	top := &a.entries[root]
	switch {
	case e.chance() > top.chance():
		e.earlier, e.later = a.split(root, e.minTime)
		return at
	case e.minTime < top.minTime:
		top.earlier = a.insert(top.earlier, at)
	default:
		top.later = a.insert(top.later, at)
	}
	return root
}

// split divides a tree into the entries before a time and the entries after it.
func (a *archiveIndex) split(root int32, time int64) (before, after int32) {
	if root == none {
		return none, none
	}
	top := &a.entries[root]
	if top.minTime < time {
		top.later, after = a.split(top.later, time)
		return root, after
	}
	before, top.earlier = a.split(top.earlier, time)
	return before, root
}

// without removes an entry from its tree and returns the root.
func (a *archiveIndex) without(root, at int32) int32 {
	if root == at {
		return a.join(a.entries[at].earlier, a.entries[at].later)
	}
	if top := &a.entries[root]; a.entries[at].minTime < top.minTime {
		top.earlier = a.without(top.earlier, at)
	} else {
		top.later = a.without(top.later, at)
	}
	return root
}

// join makes one tree of two. All entries of the second are after those of the first.
func (a *archiveIndex) join(before, after int32) int32 {
	switch {
	case before == none:
		return after
	case after == none:
		return before
	}
	b, e := &a.entries[before], &a.entries[after]
	if b.chance() > e.chance() {
		b.later = a.join(b.later, after)
		return before
	}
	e.earlier = a.join(before, e.earlier)
	return after
}
