package segments

import (
	"fmt"
	"maps"
	"slices"
)

// plan is a settling that an owner makes.
type plan struct {
	settling
	segments map[string]document // as they were read
	buckets  []document
}

func (c *consumer) settleOften(sleep func(int)) {
	for !c.ready {
		sleep(1)
	}
	if c.w.with(recoverFound) && (c.early || c.w.with(recoverLate)) {
		if c.recover(sleep) {
			c.w.saw(takenOver)
		}
	}
	for {
		sleep(1 + c.w.random.IntN(c.w.often))
		c.retry(sleep)
		c.sweep(sleep)
		if p := c.plan(); p != nil {
			c.settle(sleep, p)
		}
	}
}

// plan reads segments and makes buckets of them.
func (c *consumer) plan() *plan {
	s := c.w.db.majority()
	if !c.w.with(readFresh) {
		s = c.w.db.log[c.w.db.oldest(c.w.now-c.w.random.IntN(10*replicaLag))]
	}
	ids := slices.DeleteFunc(segmentsOf(s), func(id string) bool { return c.unresolved[id] && c.w.with(settleResolved) })
	if len(ids) == 0 {
		return nil
	}
	if c.w.chance(0.5) {
		c.w.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	}
	if c.w.chaos {
		ids = ids[:1+c.w.random.IntN(min(len(ids), c.w.many))]
	}
	c.settled++
	p := &plan{segments: map[string]document{}}
	p.settling = settling{by: fmt.Sprintf("%s.%d", c.name, c.settled), from: c.clock() + c.w.ahead, segments: ids}
	series := map[int][]row{}
	for _, id := range ids {
		p.segments[id] = s.documents[id]
		for _, r := range s.documents[id].rows {
			series[r.meta] = append(series[r.meta], r)
		}
	}
	for _, meta := range slices.Sorted(maps.Keys(series)) {
		for rows := range slices.Chunk(series[meta], 4) {
			p.buckets = append(p.buckets, document{rows: rows, from: p.from, by: p.by})
		}
	}
	return p
}

// settle goes through the steps. After any doubt it is recovered.
func (c *consumer) settle(sleep func(int), p *plan) {
	c.tell(p)
	steps := []func() bool{
		func() bool { return c.announce(sleep, p) },
		func() bool { return c.insert(sleep, p) },
		func() bool { return c.inTime(p) },
		func() bool { return c.end(sleep, p) },
		func() bool { return c.forget(sleep, p.settling) },
	}
	if !c.w.with(announceFirst) {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, do := range steps {
		c.dawdle(sleep, c.w.ahead)
		if !do() {
			c.w.settlings[p.by].doubted = true
			c.recover(sleep)
			return
		}
	}
	c.w.saw(settledWell)
}

// dawdle takes long, now and then.
func (c *consumer) dawdle(sleep func(int), most int) {
	if c.w.chaos && c.w.chance(c.w.slow) {
		for until := c.w.now + c.w.random.IntN(most); c.w.now < until; {
			c.retry(sleep)
		}
	}
}

// announce says in the partition document what is about to be made of what.
func (c *consumer) announce(sleep func(int), p *plan) bool {
	return c.one(sleep, c.start(func() (int, string) {
		return c.w.db.partition(func(s *state) bool {
			if c.w.with(announceClaimed) && s.claim != c.token {
				return false
			}
			if c.w.with(announceAlone) && s.settling != nil {
				c.w.saw(announcedBeside)
				return false
			}
			if c.w.settlings[p.by].doubted {
				c.w.saw(ghost)
			}
			told := p.settling
			s.settling = &told
			c.w.log("%s announces %s of %v, shown from %d", c.name, p.by, p.settling.segments, p.from)
			return true
		})
	}))
}

// insert writes the buckets, in commands of their own.
func (c *consumer) insert(sleep func(int), p *plan) bool {
	attempts, left := make([]int, len(p.buckets)), map[int]bool{}
	for i := range p.buckets {
		left[i] = true
	}
	for len(left) > 0 {
		indexes := slices.Sorted(maps.Keys(left))
		var calls []*call
		for _, i := range indexes {
			calls = append(calls, c.start(func() (int, string) { return c.insertBucket(p.buckets[i], attempts[i]) }))
		}
		c.await(sleep, calls, refused)
		for n, k := range calls {
			switch i := indexes[n]; {
			case k.known && k.err == duplicate:
				attempts[i]++
			case k.done(), !c.w.with(insertsAcked):
				delete(left, i)
			default:
				left = nil
			}
			if k.sent && !k.known {
				c.insertsUntil = max(c.insertsUntil, k.at+grace+1)
			}
		}
		if left == nil {
			return false
		}
	}
	return true
}

func (c *consumer) insertBucket(doc document, attempt int) (seq int, err string) {
	if c.w.settlings[doc.by].doubted {
		c.w.saw(lateInsert)
	}
	if !c.w.with(showLater) {
		doc.from = 0
	}
	c.w.log("%s inserts %s %v for %s", c.name, idOf(doc, attempt), doc.rows, doc.by)
	return c.w.db.insert(idOf(doc, attempt), doc)
}

// inTime tells whether every query to which the buckets are shown will find them all.
func (c *consumer) inTime(p *plan) bool {
	if c.clock()+margin < p.from {
		return true
	}
	c.w.saw(insertedLate)
	return !c.w.with(insertsInTime)
}

// end gives the segments their until, each in a command of its own.
func (c *consumer) end(sleep func(int), p *plan) bool {
	c.ending[p.by] = true
	var calls []*call
	for _, id := range p.settling.segments {
		calls = append(calls, c.start(func() (int, string) { return c.endOne(p, id) }))
	}
	return c.await(sleep, calls, refused, noMatch) || !c.w.with(commitAll)
}

func (c *consumer) endOne(p *plan, id string) (seq int, err string) {
	seq, err = c.w.db.update(id, func(doc *document) bool {
		if c.w.with(commitUnended) && doc.until > 0 {
			return false
		}
		if doc.edits != p.segments[id].edits {
			if c.w.settlings[p.by].undone {
				c.w.saw(lateEnd)
			} else {
				c.w.saw(editedMeanwhile)
			}
			if c.w.with(editsAsRead) {
				return false
			}
		}
		doc.until, doc.by = p.from, p.by
		return true
	})
	if err == ok {
		c.w.log("%s ends %s for %s", c.name, id, p.by)
	}
	return seq, err
}

// forget is the last step of a settling that is done.
func (c *consumer) forget(sleep func(int), of settling) bool {
	c.forgetting = of.by
	return c.clear(sleep, of)
}

// clear takes a settling out of the partition document.
func (c *consumer) clear(sleep func(int), of settling) bool {
	return c.one(sleep, c.start(func() (int, string) {
		return c.w.db.partition(func(s *state) bool {
			if s.claim != c.token || s.settling == nil || s.settling.by != of.by && c.w.with(forgetOwn) {
				return false
			}
			c.w.log("%s forgets %s", c.name, s.settling.by)
			s.settling = nil
			return true
		})
	}))
}
