package bucketer

import "encoding/binary"

// The archived buckets of a series form a treap. It is a search tree by minimum time, and also a heap by a random number of
// each entry. Its depth is some twice the least one, in whatever order buckets are archived. A backfill may come newest first.
// A treap takes no memory except two indexes per entry.

// none is the index of no entry.
const none = int32(-1)

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
