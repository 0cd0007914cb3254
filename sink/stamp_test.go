package sink

import (
	"testing"
	"time"
)

// TestAFenceChangesItsDocumentWhenTheClockIsSetBack checks this because an update without a change is no write, and orders
// nothing.
func TestAFenceChangesItsDocumentWhenTheClockIsSetBack(t *testing.T) {
	var p Partition
	before := p.stamp()
	for range 100 { // faster than the clock's milliseconds
		next := p.stamp()
		if next <= before {
			t.Fatalf("%v after %v", next, before)
		}
		before = next
	}
	p.stamped = time.Now().Round(0).Add(time.Hour) // the time before the clock was set back
	former := p.stamped.UnixMilli()
	if next := p.stamp(); int64(next) <= former {
		t.Errorf("%v after %v", next, former)
	}
}
