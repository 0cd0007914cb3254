package segments

import (
	"fmt"
	"slices"
)

// consumer is one term of an owner of the partition.
type consumer struct {
	w             *world
	name          string
	token         int
	main          *process // it claims, writes measurements and commits
	compactor     *process
	skew          int // of its clock
	leased        int // the end of its lease
	leaving       bool
	ready         bool
	known         map[int]bool    // positions that are stored, or were sent
	unresolved    map[string]bool // segments whose write is unknown
	position      int
	flying        int // the number of calls that wait for their answer
	unknownUntil  int // from then on no write without an answer can be executed
	commandsUntil int // the same for the commands of compactions
	compacted     int // the number of compactions that it has begun
}

// assign gives the partition to a new owner.
func (w *world) assign() {
	c := &consumer{
		w: w, name: fmt.Sprintf("C%d", len(w.consumers)), token: len(w.consumers) + 1,
		known: map[int]bool{}, unresolved: map[string]bool{},
	}
	c.skew = w.random.IntN(clockError+1) - clockError/2
	if !w.clocks {
		c.skew = w.random.IntN(81) - 40
	}
	wait := w.owner != nil && !w.released
	w.owner, w.released = c, false
	w.consumers = append(w.consumers, c)
	c.leased = w.now + leaseTime
	w.log("%s has the partition from %d on", c.name, w.committed)
	c.main = w.spawn(func(sleep func(int)) { c.run(sleep, wait) })
	c.compactor = w.spawn(c.compactOften)
}

func (c *consumer) kill() {
	c.main.kill()
	c.compactor.kill()
}

func (c *consumer) pause(ticks int) {
	c.main.paused, c.compactor.paused = c.w.now+ticks, c.w.now+ticks
	c.w.log("%s stops until %d", c.name, c.w.now+ticks)
}

func (c *consumer) clock() int { return c.w.now + c.skew }

// over reports whether nothing can be sent any more.
func (c *consumer) over() bool {
	last := c.leased
	if !c.w.with(underLease) {
		last += 40
	}
	return c.w.owner != c && c.w.now >= last
}

// start sends a command if the lease is held.
func (c *consumer) start(execute func() (seq int, err string)) *call {
	if c.w.with(underLease) && c.w.now >= c.leased {
		return &call{w: c.w}
	}
	c.flying++
	return c.w.start(execute)
}

// await waits for calls, and notes until when those without an answer may still be executed.
func (c *consumer) await(sleep func(int), calls []*call, hasty ...string) bool {
	all := c.w.await(sleep, calls, hasty...)
	for _, k := range calls {
		if k.sent {
			c.flying--
		}
		if k.sent && !k.known {
			c.unknownUntil = max(c.unknownUntil, k.at+writeGrace+1)
		}
	}
	return all
}

func (c *consumer) one(sleep func(int), k *call) bool { return c.await(sleep, []*call{k}) }

// look reads the state of a majority after all earlier writes (a fence). Without the fence it reads a state that some member had.
// It does not return after the end of the term.
func (c *consumer) look(sleep func(int), fence guard) state {
	if !c.w.with(fence) {
		return c.w.db.log[c.w.db.oldest(c.w.now-c.w.random.IntN(10*replicaLag))]
	}
	for {
		k := c.start(func() (int, string) { return c.w.db.partition(func(s *state) bool { return s.claim == c.token }) })
		if c.one(sleep, k) {
			return c.w.db.majority()
		}
		c.retry(sleep)
	}
}

// retry waits a little. It does not return after the end of the term.
func (c *consumer) retry(sleep func(int)) {
	if c.over() {
		sleep(never)
	}
	sleep(1)
	c.commit()
}

// commit is answered at once or not at all. It renews the lease.
func (c *consumer) commit() {
	if c.w.owner == c && (!c.w.chaos || !c.w.chance(c.w.loss)) {
		c.leased = c.w.now + leaseTime
		if c.ready && c.position > c.w.committed {
			c.w.committed = c.position
		}
	}
}

func (c *consumer) run(sleep func(int), wait bool) {
	c.claim(sleep, wait)
	c.load(sleep)
	for {
		c.retry(sleep)
		if c.leaving && c.release() {
			return
		}
		if c.position < c.w.end && c.w.chance(0.5) {
			c.flush(sleep, min(c.w.end, c.position+1+c.w.random.IntN(4)))
		}
	}
}

// claim waits until no write of the former owner can be executed any more, and then claims the partition.
func (c *consumer) claim(sleep func(int), wait bool) {
	if wait && c.w.with(waitForFormer) {
		for until := c.w.now + leaseTime + writeGrace + 1; c.w.now < until; {
			c.retry(sleep)
		}
	}
	for {
		k := c.start(func() (int, string) {
			return c.w.db.partition(func(s *state) bool {
				if s.claim > c.token {
					return false
				}
				s.claim = c.token
				return true
			})
		})
		if c.one(sleep, k) {
			return
		}
		c.retry(sleep)
	}
}

// load reads the stored positions, that is, the positions in all documents.
func (c *consumer) load(sleep func(int)) {
	c.position = c.w.committed
	s := c.look(sleep, fenceD)
	for _, doc := range s.documents {
		switch {
		case doc.segment && !c.w.with(readSegments):
		case doc.segment && doc.until > 0 && !c.w.with(dWithEnded):
		case !doc.segment && doc.from > c.clock() && !c.w.with(dWithHidden):
		default:
			for _, r := range doc.rows {
				c.known[r.position] = true
			}
		}
	}
	c.w.log("%s begins: %d known", c.name, len(c.known))
	c.ready = true
}

// release releases the partition, so that the next owner need not wait.
func (c *consumer) release() bool {
	clean := c.flying == 0 && c.w.now >= c.unknownUntil || !c.w.with(releaseClean)
	c.commit()
	if !clean || c.w.owner != c || c.w.committed != c.position {
		return false
	}
	c.w.saw(handedOver)
	c.w.released = true
	c.compactor.kill()
	c.w.assign()
	return true
}

// flush stores the records before end in segments, or sometimes directly in buckets.
func (c *consumer) flush(sleep func(int), end int) {
	var rows []row
	for p := c.position; p < end; p++ {
		if !c.known[p] {
			rows = append(rows, row{p, p % metas})
			c.known[p] = true
		}
	}
	if !c.w.with(awaitAnswer) {
		c.position = end
		c.commit()
	}
	for len(rows) > 0 {
		n := len(rows)
		segment := c.w.chance(0.85)
		if !segment {
			n = 1
		}
		c.store(sleep, document{segment: segment, rows: rows[:n:n]})
		rows = rows[n:]
	}
	c.position = end
}

// store writes one document until it is known to be stored.
func (c *consumer) store(sleep func(int), doc document) {
	late := 0 // until then a command without an answer may be executed
	for attempt := 0; len(doc.rows) > 0; c.retry(sleep) {
		id := idOf(doc, attempt)
		c.unresolved[id] = true
		for _, r := range doc.rows {
			c.w.sent[r.position] = c.w.now + writeGrace
		}
		k := c.start(func() (int, string) { return c.w.db.insert(id, doc) })
		c.one(sleep, k)
		if k.sent && !k.known {
			late = k.at + writeGrace + 1
		}
		switch {
		case k.done():
			c.w.log("%s wrote %s %v", c.name, id, doc.rows)
			delete(c.unresolved, id)
			return
		case !k.sent, k.known && k.err == refused:
			continue
		case !c.w.with(readBack):
			attempt++
			continue
		}
		c.w.saw(unknownFlush)
		c.dawdle(sleep, c.w.lazy, c.w.ahead+5*linger)
		s := c.look(sleep, always)
		found, has := s.documents[id]
		if !has {
			continue // the same document is sent again
		}
		if samePositions(found, doc) {
			delete(c.unresolved, id)
			c.w.log("%s found %s", c.name, id)
			return
		}
		if c.w.now < late {
			continue // it may be executed after the other document is deleted
		}
		delete(c.unresolved, id)
		doc.rows = notStored(s, doc.rows)
		attempt++
	}
}

// idOf derives an _id from the first position.
func idOf(doc document, attempt int) string {
	return fmt.Sprintf("%s%d/%d", map[bool]string{true: "S", false: "B"}[doc.segment], doc.rows[0].position, attempt)
}

func samePositions(a, b document) bool {
	return slices.EqualFunc(a.rows, b.rows, func(a, b row) bool { return a.position == b.position })
}

// notStored returns the rows whose position is in no document.
func notStored(s state, rows []row) (left []row) {
	stored := map[int]bool{}
	for _, doc := range s.documents {
		for _, r := range doc.rows {
			stored[r.position] = true
		}
	}
	for _, r := range rows {
		if !stored[r.position] {
			left = append(left, r)
		}
	}
	return left
}
