package bucketer

import (
	"bytes"
	"testing"
)

// release returns a flush with its bytes overwritten, so that a later read of them is noticed.
func release(c *Catalog, f *Flush) {
	for _, block := range f.memory.blocks {
		block = block[:cap(block)]
		for at := range block {
			block[at] = 0xdb
		}
	}
	c.Release(f)
}

// TestReleasedMemoryIsUsedAgain cuts flush after flush. From the second on, the writes use the memory of the first flush, and
// equal those of a catalog without reuse. A flush that is not released stays unchanged.
func TestReleasedMemoryIsUsedAgain(t *testing.T) {
	c, fresh := New(testOptions(t)), New(testOptions(t))
	n, same := newNumeric(200), newNumeric(200)
	finish := func(c *Catalog, f *Flush) { c.Finish(f, make([]Outcome, len(f.Writes)), 0) }
	var kept *Flush
	var document []byte
	for round := range 4 {
		n.insert(t, c, 200*(round+1))
		same.insert(t, fresh, 200*(round+1))
		f, want := c.Prepare(0), fresh.Prepare(0)
		for i, w := range f.Writes {
			other := want.Writes[i]
			if w.ID != other.ID || !bytes.Equal(w.Document, other.Document) || !bytes.Equal(w.Filter, other.Filter) ||
				!bytes.Equal(w.Offsets, other.Offsets) || !w.Meta.Equal(other.Meta) {
				t.Fatalf("round %d: write %d differs in memory that was used before", round, i)
			}
		}
		finish(c, f)
		finish(fresh, want)
		if round == 1 {
			kept, document = f, bytes.Clone(f.Writes[0].Document)
			continue
		}
		before := c.Bytes()
		release(c, f)
		if f.Writes != nil || c.Bytes() == before {
			t.Errorf("round %d: %d writes are left, %d bytes are accounted for as before", round, len(f.Writes), before)
		}
		release(c, f) // a second release does nothing
	}
	if !bytes.Equal(kept.Writes[0].Document, document) {
		t.Error("a flush that was not given back has changed")
	}
	c.Expire(0)
	if c.spare.total != 0 {
		t.Errorf("%d bytes are kept for flushes although memory is short", c.spare.total)
	}
}

func TestReleaseBeforeTheOutcomes(t *testing.T) {
	c := New(testOptions(t))
	newNumeric(1).insert(t, c, 1)
	f := c.Prepare(0)
	defer func() {
		if recover() == nil {
			t.Error("the flush in flight was released")
		}
	}()
	c.Release(f)
}
