package bucketer

import "encoding/binary"

// The archived buckets of a series are a treap: a search tree by minimum time that is a heap by a number each has by
// chance. So it is some twice as deep as it must be, in whatever order buckets are archived: a backfill may come newest
// first. It takes no memory but the two indexes of an entry.

// none is no entry.
const none = int32(-1)

// chance is the place in the heap: what an _id has behind its time is a part of a hash.
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

// split parts a tree into the entries before a time and those after it.
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

// without takes an entry out of its tree and returns the root.
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

// join makes one tree of two of which all entries of the second are after those of the first.
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
