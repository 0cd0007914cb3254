package pipeline

import (
	"slices"
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
)

// step is what a write of a flush needs next.
type step uint8

const (
	toSend    step = iota
	toResolve      // its outcome is unknown, so it is read back
	toAsk          // it had a conflict: after the grace, ask which of its positions are stored
	done
)

// attempt is the state of one write. A write is unknown from its sending until it is done (E4).
type attempt struct {
	lastSent   Instant // when its last attempt was answered
	readBack   Instant // when it was last found not applied
	notApplied int32
	step       step
	sent       bool
	resolved   bool // its outcome came from a read-back
}

// flush holds the writes cut by one Prepare, until each is applied or its measurements are back in the catalog. It keeps lists
// of writes by state, so that no event looks at all of them.
type flush struct {
	cut      *bucketer.Flush
	attempts []attempt
	outcomes []bucketer.Outcome // of the writes that are done
	left     int                // how many writes are not done
	fresh    int                // index of the first write that was not handed out yet
	again    []int              // to be sent again, or not sent when they were handed out
	unknown  []int              // to be read back
	asking   []int              // conflicts that wait for their grace
	changed  bool               // a write ended as a conflict
	// acting are the indexes of the writes in the action under way. Nil means that there is none.
	acting  []int
	handed  Instant // when the action began
	retry   backoff
	started Instant
}

func newFlush(cut *bucketer.Flush, now Instant) *flush {
	n := len(cut.Writes)
	return &flush{cut: cut, attempts: make([]attempt, n), outcomes: make([]bucketer.Outcome, n), left: n, started: now}
}

// unresolved reports whether a write that was sent may still be executed.
func (f *flush) unresolved() bool {
	return slices.ContainsFunc(f.attempts, func(a attempt) bool { return a.sent && a.step != done })
}

// isOpen reports whether a write to this document is not done yet.
func (f *flush) isOpen(id bson.ObjectID) bool {
	for i, w := range f.cut.Writes {
		if w.ID == id {
			return f.attempts[i].step != done
		}
	}
	return false
}

// unconfirmed counts the writes that were sent and whose outcome is not known.
func (f *flush) unconfirmed() int { return len(f.unknown) + len(f.asking) }

// bytes is the memory of the flush without the writes themselves.
func (f *flush) bytes() int64 {
	indexes := cap(f.again) + cap(f.unknown) + cap(f.asking) + cap(f.acting)
	return int64(cap(f.attempts))*int64(unsafe.Sizeof(attempt{})) + int64(cap(f.outcomes))*int64(unsafe.Sizeof(bucketer.Outcome{})) +
		int64(indexes)*int64(unsafe.Sizeof(0))
}

// next takes the writes to be sent now. Writes that were handed out before come first. It takes as many as weigh no more than
// the bound together, and at least one. Nil means that there are none.
func (f *flush) next(bound int64) []int {
	var indexes []int
	for weight := int64(0); ; {
		i := f.fresh
		if len(f.again) > 0 {
			i = f.again[0]
		} else if i == len(f.attempts) {
			return indexes
		}
		if weight += weigh(f.cut.Writes[i]); len(indexes) > 0 && weight > bound {
			return indexes
		}
		if len(f.again) > 0 {
			f.again = f.again[1:]
		} else {
			f.fresh++
		}
		indexes = append(indexes, i)
	}
}

// doubt marks inserts as unknown that were read back longer ago than most, so that they are read back again before they are sent
// again. On a cluster an earlier sending may have stored the bucket since, and an edit of metas may have moved it to another shard.
// MongoDB would not refuse the insert then, because an _id is unique only within a shard. Such an edit waits for inserts, for longer
// than most and the grace (internal/collection/lateinserts.go).
func (f *flush) doubt(now, most Instant) {
	f.again = slices.DeleteFunc(f.again, func(i int) bool {
		a := &f.attempts[i]
		if a.notApplied == 0 || f.cut.Writes[i].Kind != bucketer.Insert || now-a.readBack <= most {
			return false
		}
		a.step, f.unknown = toResolve, append(f.unknown, i)
		return true
	})
}

// writes picks writes by index.
func (f *flush) writes(indexes []int) []*bucketer.Write {
	writes := make([]*bucketer.Write, len(indexes))
	for i, at := range indexes {
		writes[i] = f.cut.Writes[at]
	}
	return writes
}
