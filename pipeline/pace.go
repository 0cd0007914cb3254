package pipeline

import (
	"time"

	"waterwheel/bucketer"
)

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
