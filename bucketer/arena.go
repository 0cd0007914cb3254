package bucketer

import "bytes"

// batchBytes is how many bytes of writes are encoded one behind the other before they are moved out of the scratch: as
// many as stay in the processor's cache meanwhile, and, with another small write, not more than 64 KiB, because memory
// comes in pages.
const batchBytes = 63 << 10

// arena holds the writes of one flush and their bytes. They are never used again for anything else: whoever sends them
// may do so as long as it likes.
type arena struct {
	writes []Write
	sealed int   // of writes, those whose bytes are theirs
	total  int64 // bytes allocated
}

func newArena(writes int) arena {
	return arena{writes: make([]Write, 0, writes), total: int64(writes) * writeBytes}
}

// isFull tells that another write needs another list.
func (a *arena) isFull() bool { return len(a.writes) == cap(a.writes) }

// grow makes another list, for more writes: of documents that were split. Those before are sealed.
func (a *arena) grow() {
	a.writes, a.sealed = make([]Write, 0, 2*cap(a.writes)), 0
	a.total += int64(cap(a.writes)) * writeBytes
}

// write returns a new Write. The list is not full.
func (a *arena) write() *Write {
	a.writes = a.writes[:len(a.writes)+1]
	return &a.writes[len(a.writes)-1]
}

// seal moves the bytes of the writes since the last time, which stand one behind the other, into memory of exactly their
// size.
func (a *arena) seal(encoded []byte) {
	rest := bytes.Clone(encoded)
	a.total += int64(cap(rest))
	for i := range a.writes[a.sealed:] {
		w := &a.writes[a.sealed+i]
		w.Meta.Value, rest = moved(w.Meta.Value, rest)
		w.Offsets, rest = moved(w.Offsets, rest)
		w.Document, rest = moved(w.Document, rest)
		w.Filter, rest = moved(w.Filter, rest)
	}
	a.sealed = len(a.writes)
}

// moved cuts what b holds off its copy. Without bytes nothing of the scratch may stay within reach.
func moved(b, rest []byte) (out, after []byte) {
	if len(b) == 0 {
		return b[:0:0], rest
	}
	return rest[:len(b):len(b)], rest[len(b):]
}
