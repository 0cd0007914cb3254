package pipeline

import (
	"time"

	"waterwheel/bucketer"
)

// pace bounds how much of a flush one SendWrites carries, by how long the last ones took: all calls of one share a
// deadline, and those that are still under way at its end become unknown, however healthy the database is. So an action is
// to take a quarter of the write timeout, and the rest of the flush follows in other actions, each with its own deadline.
type pace struct {
	bound  int64         // the sum of weigh, at most
	target time.Duration // that an action is to take
}

// writeWeight is what a write costs a database beside its bytes, as so many bytes.
const writeWeight = 4 << 10

// paceStep is by how much an action may be larger or smaller than the one before: one that was slow or quick by accident
// tells little. largestSend keeps a bound that is never reached from growing without an end.
const (
	paceStep    = 4
	largestSend = 1 << 40
)

// weigh is what sending a write costs.
func weigh(w *bucketer.Write) int64 { return int64(len(w.Filter)+len(w.Document)) + writeWeight }

// took notes that an action carried so much, of which so much was answered in its time.
func (p *pace) took(d time.Duration, given, answered int64) {
	measured := float64(largestSend)
	if d > 0 {
		measured = min(measured, float64(answered)*float64(p.target)/float64(d))
	}
	bound := int64(measured)
	switch {
	case answered < given: // it was too much, however much more the bound would have let through
		p.bound = min(p.bound, given)
		bound = min(bound, p.bound/2)
	case d > p.target:
	case given < p.bound/2: // a small one does not tell how long a large one takes
		return
	default:
		bound = max(bound, p.bound)
	}
	p.bound = min(max(1, bound, p.bound/paceStep), p.bound*paceStep, largestSend)
}
