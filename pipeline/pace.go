package pipeline

import (
	"time"

	"waterwheel/bucketer"
)

// pace bounds how much of a flush one SendWrites carries, by how long the last ones took: all calls of one share a
// deadline, and those that are still under way at its end become unknown, however healthy the database is. So an action is
// to take a quarter of the write timeout, half of it at most, and the rest of the flush follows in other actions, each with
// its own deadline.
type pace struct {
	bound    int64         // the sum of weigh, at most
	target   time.Duration // that an action is to take
	quickest time.Duration // what the quickest of the last actions took that were answered whole. Zero means that there was none.
}

// writeWeight is what a write costs a database beside its bytes, as so many bytes.
const writeWeight = 4 << 10

// fewWrites is nearly always sent whole: that so little is too much for a database is the least likely cause.
const fewWrites = 128 * writeWeight

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
	measured := int64(largestSend)
	if d > 0 {
		measured = int64(min(largestSend, float64(answered)*float64(p.target)/float64(d)))
	}
	if answered < given { // it was too much, however much more the bound would have let through; of a few writes any outage says so
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
		if d > quickest+quickest/2 { // else it is the way that takes so long: with less to send it would be no shorter
			p.bound = max(1, min(measured, p.bound), p.bound/paceStep)
		}
	case given < p.bound/2: // a small one does not tell how long a large one takes
	case d > p.target: // half the write timeout at most
		p.bound = min(p.bound+p.bound/8+writeWeight, largestSend)
	default:
		p.bound = min(max(measured, p.bound), p.bound*paceStep, largestSend)
	}
}
