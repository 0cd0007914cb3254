package bucketer

import (
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// archived is a stored bucket that is not in memory, but whose _id is known.
type archived struct {
	id      bson.ObjectID
	minTime int64
	series  uint64 // hash of the series' key
	older   int32  // index of the series' entry with the next smaller minTime, -1: none
	gone    bool
}

const (
	archivedBytes = int64(unsafe.Sizeof(archived{}))
	chainSlot     = 16 // uint64, int32
	placeSlot     = 16 // ObjectID, int32
)

// archiveIndex holds the archived buckets, in the order they were archived. Its series are known by a hash only: two
// that share one may find each other's buckets, which their look-ups then refuse.
type archiveIndex struct {
	entries []archived
	live    int
	chains  map[uint64]int32 // the series' entry with the largest minTime
	places  map[bson.ObjectID]int32
	peak    int // live entries the maps have held
}

func newArchiveIndex() archiveIndex {
	return archiveIndex{chains: map[uint64]int32{}, places: map[bson.ObjectID]int32{}}
}

func (a *archiveIndex) len() int { return a.live }

func (a *archiveIndex) bytes() int64 {
	return int64(cap(a.entries))*archivedBytes + mapBytes(a.peak, chainSlot) + mapBytes(a.peak, placeSlot)
}

// hashOf is FNV-1a, so that nothing depends on a process.
func hashOf(key string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(key) {
		hash = (hash ^ uint64(key[i])) * 1099511628211
	}
	return hash
}

// find returns the series' bucket with the largest minimum time that is not after time, if its window holds that time.
func (a *archiveIndex) find(key string, time, span int64) (bson.ObjectID, bool) {
	if a.live == 0 {
		return bson.ObjectID{}, false
	}
	at, ok := a.chains[hashOf(key)]
	for ok && at >= 0 {
		if e := &a.entries[at]; e.minTime <= time {
			return e.id, !spanExceeded(time, e.minTime, span)
		}
		at = a.entries[at].older
	}
	return bson.ObjectID{}, false
}

// add archives a bucket; false when the series has one of the same minimum time, which stays.
func (a *archiveIndex) add(key string, id bson.ObjectID, minTime int64) bool {
	hash := hashOf(key)
	newer, older := int32(-1), int32(-1)
	if at, ok := a.chains[hash]; ok {
		for older = at; older >= 0 && a.entries[older].minTime > minTime; older = a.entries[older].older {
			newer = older
		}
	}
	if older >= 0 && a.entries[older].minTime == minTime {
		return false
	}
	at := int32(len(a.entries))
	a.entries = append(a.entries, archived{id: id, minTime: minTime, series: hash, older: older})
	a.link(hash, newer, at)
	a.places[id] = at
	a.live++
	a.peak = max(a.peak, a.live)
	return true
}

// link makes at what follows newer in a series' chain, or its head.
func (a *archiveIndex) link(hash uint64, newer, at int32) {
	switch {
	case newer >= 0:
		a.entries[newer].older = at
	case at >= 0:
		a.chains[hash] = at
	default:
		delete(a.chains, hash)
	}
}

// holdsForOther reports whether a bucket is archived for another series than the one with this key.
func (a *archiveIndex) holdsForOther(key string, id bson.ObjectID) bool {
	at, ok := a.places[id]
	return ok && a.entries[at].series != hashOf(key)
}

// remove forgets an archived bucket, if it is one.
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
	newer := int32(-1)
	for other := a.chains[e.series]; other != at; other = a.entries[other].older {
		newer = other
	}
	a.link(e.series, newer, e.older)
	e.gone = true
	delete(a.places, e.id)
	a.live--
}

// compact makes all anew without what is gone.
func (a *archiveIndex) compact() {
	moved := make([]int32, len(a.entries))
	kept := make([]archived, 0, a.live)
	for at := range a.entries {
		if e := a.entries[at]; !e.gone {
			moved[at] = int32(len(kept))
			kept = append(kept, e)
		}
	}
	compacted := newArchiveIndex()
	for at := range kept {
		if kept[at].older >= 0 {
			kept[at].older = moved[kept[at].older]
		}
		compacted.places[kept[at].id] = int32(at)
	}
	for hash, at := range a.chains {
		compacted.chains[hash] = moved[at]
	}
	compacted.entries, compacted.live, compacted.peak = kept, len(kept), len(kept)
	*a = compacted
}

// dropOldest forgets about a quarter of the archived buckets, those archived first.
func (a *archiveIndex) dropOldest() {
	for at, left := 0, a.live/4+1; left > 0; at++ {
		if e := &a.entries[at]; !e.gone {
			a.unlink(int32(at))
			left--
		}
	}
	a.compact()
}

// clear forgets all archived buckets and gives their memory back.
func (a *archiveIndex) clear() { *a = newArchiveIndex() }

// archiveBucket archives a stored bucket that the caller then drops. One that is full, or closed, cannot be reopened.
func (c *Catalog) archiveBucket(b *bucket) bool {
	if !c.options.Reopen || b.stored == 0 || b.is(isClosed) {
		return false
	}
	return c.archive.add(b.series.key, b.id, b.minTime)
}
