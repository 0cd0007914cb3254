package pipeline

import (
	"slices"
	"time"
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
// than most and the grace (internal/collection/selectionedit.go).
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

// pace bounds how much of a flush one SendWrites carries, by how long the last ones took. All calls of one SendWrites share a
// deadline. Calls still under way at the deadline become unknown, even with a healthy database. So an action should take a
// quarter of the write timeout, and half of it at most. The rest of the flush follows in other actions, each with its own
// deadline.
type pace struct {
	bound  int64         // the largest sum of weigh
	target time.Duration // the time that an action should take
	// quickest is the shortest time of the last actions that were answered completely. Zero means that there was none.
	quickest time.Duration
}

// writeWeight is the cost of a write to a database besides its bytes, in bytes.
const writeWeight = 4 << 10

// fewWrites is nearly always sent whole, because a database is hardly ever too slow for so little.
const fewWrites = 128 * writeWeight

// paceStep is the largest factor between the bounds of two consecutive actions, because one that was slow or quick by accident
// tells little. largestSend keeps a bound that is never reached from growing without end.
const (
	paceStep    = 4
	largestSend = 1 << 40
)

// weigh is the cost of sending a write, in bytes.
func weigh(w *bucketer.Write) int64 { return int64(len(w.Filter)+len(w.Document)) + writeWeight }

// took notes that an action carried the weight given, of which the weight answered was answered in time.
func (p *pace) took(d time.Duration, given, answered int64) {
	measured := int64(largestSend)
	if d > 0 {
		measured = int64(min(largestSend, float64(answered)*float64(p.target)/float64(d)))
	}
	// Unanswered writes mean that the action was too large, even if the bound would have allowed more. A few writes are also
	// unanswered in any outage, so they say less.
	if answered < given {
		p.bound = min(p.bound, max(given, fewWrites))
		p.bound = max(1, min(measured, p.bound/2), p.bound/paceStep)
		return
	}
	quickest := p.quickest
	if p.quickest += p.quickest / 8; p.quickest == 0 || d < p.quickest {
		p.quickest = d
	}
	switch {
	case d > 2*p.target:
		if d > quickest+quickest/2 { // otherwise the network takes so long, and a smaller action would be no quicker
			p.bound = max(1, min(measured, p.bound), p.bound/paceStep)
		}
	case given < p.bound/2: // a small action does not tell how long a large one takes
	case d > p.target: // at most half the write timeout
		p.bound = min(p.bound+p.bound/8+writeWeight, largestSend)
	default:
		p.bound = min(max(measured, p.bound), p.bound*paceStep, largestSend)
	}
}
