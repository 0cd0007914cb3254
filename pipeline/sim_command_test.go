package pipeline_test

import (
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// command is a write command in flight.
type command struct {
	w       *world
	n       int
	execute func(int) (int, *mongodb.WriteError)
	refused func(int) bool
	reply   mongodb.Reply
	term    int           // term of the primary in which the command began
	late    float64       // probability that the command is late
	delay   time.Duration // Zero means a random delay.
}

// confirmed is the answer to a command, with the number of the last write before it.
type confirmed struct {
	reply mongodb.Reply
	seq   int64
}

// send decides the fate of the command.
func (c *command) send(p *process, answer func(any)) {
	w := c.w
	hangs := w.mongo.hanging > w.now
	if c.delay == 0 && w.mishap(w.traits.lossy) {
		w.note("(met) lost requests")
		return
	}
	delay, lost := w.between(0, 0.1), w.mishap(w.traits.lossy) || hangs && w.mishap(0.4)
	if w.traits.slow > 0 && w.chaos {
		delay = w.between(0, w.traits.slow*p.W.Seconds())
	}
	if w.mishap(c.late) || hangs && w.mishap(0.7) {
		w.note("(met) late write")
		delay = min(w.between(0, p.G.Seconds()), p.G)
		if w.chance(0.3) {
			delay = p.G // at the end of the grace
			w.note("(met) write at the end of its grace")
		}
	}
	if c.delay > 0 {
		delay, lost = c.delay, false
	}
	first := c.n
	if c.n > 1 && w.mishap(w.traits.partial) {
		first = w.rnd.IntN(c.n)
		w.note("(met) partial bulk")
	}
	w.at(w.now+delay, func() {
		if w.mongo.away > w.now {
			c.answer(lost, answer, error(errNoPrimary))
			return
		}
		if c.refusedWhole() {
			c.answer(lost, answer, error(&mongodb.CommandError{Code: codeBadValue, Message: "poison"}))
			return
		}
		c.term = w.mongo.term
		c.run(0, first)
		if first == c.n {
			c.finish(lost, answer)
			return
		}
		if rest := w.between(0, (p.G - delay).Seconds()); w.chance(0.6) { // otherwise the server died in the middle
			w.at(w.now+min(rest, p.G-delay), func() { c.run(first, c.n); c.finish(lost, answer) })
		}
	})
}

// refusedWhole reports whether the server refuses the whole command. It may do so if it refuses one of its writes.
func (c *command) refusedWhole() bool {
	for i := range c.n {
		if c.refused(i) {
			return c.w.chance(0.5)
		}
	}
	return false
}

func (c *command) run(from, to int) {
	for i := from; i < to; i++ {
		n, err := c.execute(i)
		c.reply.N += n
		if err != nil {
			c.reply.Errors = append(c.reply.Errors, *err)
		}
	}
}

// finish answers when the writes are durable, or reports that they may not be.
func (c *command) finish(lost bool, answer func(any)) {
	m, seq := c.w.mongo, c.w.mongo.seq
	if m.term != c.term {
		return // the connection is lost
	}
	if m.stalled && c.w.chance(0.2) {
		c.reply.Unconfirmed = errors.New("waiting for replication timed out")
		c.answer(lost, answer, confirmed{c.reply, seq})
		return
	}
	m.whenDurable(func() { c.answer(lost, answer, confirmed{c.reply, seq}) })
}

func (c *command) answer(lost bool, answer func(any), a any) {
	if lost {
		c.w.note("(met) lost answers")
		return
	}
	c.w.at(c.w.now+c.w.between(0, 0.05), func() { answer(a) })
}

// poisonRecords reports whether a document or update has the field that the model refuses.
func poisonRecords(raw bson.Raw) bool {
	if raw.Lookup(timeseries.FieldData, poisonField).Type != 0 {
		return true
	}
	set, ok := raw.Lookup("$set").DocumentOK()
	if !ok {
		return false
	}
	for _, e := range elementsOf(set) {
		if key := e.Key(); len(key) > len(poisonPath) && key[:len(poisonPath)] == poisonPath {
			return true
		}
	}
	return false
}
