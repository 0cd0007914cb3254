package segments

import (
	"fmt"
	"maps"
	"slices"
)

// plan is a compaction that an owner has begun.
type plan struct {
	id       string
	from     int                 // from then on queries see the buckets and not the segments
	segments map[string]document // in the state in which they were read
	buckets  []document
}

func (c *consumer) compactOften(sleep func(int)) {
	for !c.ready {
		sleep(1)
	}
	if c.w.with(recoverFound) && c.recover(sleep) {
		c.w.saw(takenOver)
	}
	for {
		sleep(1 + c.w.random.IntN(c.w.often))
		c.retry(sleep)
		if c.w.chance(0.1) {
			c.sweep(sleep)
		}
		if ids := c.choose(); len(ids) > 0 && !c.compact(sleep, ids) {
			c.recover(sleep)
		}
	}
}

// choose lists segments to compact.
func (c *consumer) choose() []string {
	ids := slices.DeleteFunc(openSegments(c.w.db.majority()), func(id string) bool { return c.unresolved[id] && c.w.with(compactResolved) })
	if c.w.chance(0.5) {
		c.w.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	}
	if c.w.chaos && len(ids) > 0 {
		ids = ids[:1+c.w.random.IntN(min(len(ids), c.w.many))]
	}
	return ids
}

// openSegments lists the segments that no compaction has frozen.
func openSegments(s state) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(s.documents)) {
		if doc := s.documents[id]; doc.segment && doc.compaction == "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// compact runs the steps of one compaction. After any doubt the compaction must be recovered.
func (c *consumer) compact(sleep func(int), ids []string) bool {
	c.compacted++
	p := &plan{id: fmt.Sprintf("%s.%d", c.name, c.compacted)}
	c.tell(p)
	steps := []func() bool{
		func() bool { return c.freeze(sleep, p, ids) },
		func() bool { return c.read(sleep, p, ids) },
		func() bool { return c.insert(sleep, p) },
		func() bool { return c.inTime(p) },
		func() bool { return c.end(sleep, p.id, p.from, slices.Sorted(maps.Keys(p.segments))) },
	}
	if !c.w.with(freezeFirst) {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, do := range steps {
		c.dawdle(sleep, c.w.slow, 3*c.w.ahead/2)
		if !do() {
			c.w.compactions[p.id].doubted = true
			return false
		}
	}
	c.w.saw(compactedWell)
	return true
}

// dawdle sometimes sleeps for a long time.
func (c *consumer) dawdle(sleep func(int), often float64, most int) {
	if c.w.chaos && c.w.chance(often) {
		for until := c.w.now + c.w.random.IntN(most); c.w.now < until; {
			c.retry(sleep)
		}
	}
}

// send executes the commands of a compaction, and notes until when those with an unknown result may be executed. It reports
// whether each was executed or found nothing to change.
func (c *consumer) send(sleep func(int), calls []*call) bool {
	c.await(sleep, calls, refused)
	good := true
	for _, k := range calls {
		good = good && k.known && k.err != refused
		if k.sent && !k.known {
			c.commandsUntil = max(c.commandsUntil, k.at+writeGrace+1)
		}
	}
	return good
}

// freeze sets the compaction of segments that have none. Nobody changes them from then on.
func (c *consumer) freeze(sleep func(int), p *plan, ids []string) bool {
	var calls []*call
	for _, id := range ids {
		calls = append(calls, c.start(func() (int, string) {
			return c.w.db.update(id, func(doc *document) bool {
				if doc.compaction != "" {
					return false
				}
				c.w.log("%s freezes %s for %s", c.name, id, p.id)
				doc.compaction = p.id
				return true
			})
		}))
	}
	return c.send(sleep, calls) || !c.w.with(freezeAcked)
}

// read reads the frozen segments and makes buckets from them.
func (c *consumer) read(sleep func(int), p *plan, ids []string) bool {
	s := c.look(sleep, readFence)
	p.segments = map[string]document{}
	series, taken := map[int][]row{}, map[int]bool{}
	for _, id := range ids {
		doc, has := s.documents[id]
		if !has || doc.compaction != p.id && c.w.with(freezeFirst) && c.w.with(freezeAcked) {
			continue
		}
		p.segments[id] = doc
		for _, r := range doc.rows {
			if !taken[r.position] { // a double is used once
				series[r.meta], taken[r.position] = append(series[r.meta], r), true
			}
		}
	}
	p.from = c.clock() + c.w.ahead
	for _, meta := range slices.Sorted(maps.Keys(series)) {
		for rows := range slices.Chunk(series[meta], 4) {
			p.buckets = append(p.buckets, document{rows: rows, from: p.from, compaction: p.id})
		}
	}
	c.tellBuckets(p)
	return true
}

// insert writes each bucket with a separate command.
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
		if !c.send(sleep, calls) && c.w.with(insertsAcked) {
			return false
		}
		for n, k := range calls {
			if i := indexes[n]; k.known && k.err == duplicate {
				attempts[i]++
			} else {
				delete(left, i)
			}
		}
	}
	return true
}

func (c *consumer) insertBucket(doc document, attempt int) (seq int, err string) {
	if c.w.compactions[doc.compaction].doubted {
		c.w.saw(lateInsert)
	}
	if !c.w.with(showLater) {
		doc.from = 0
	}
	c.w.log("%s inserts %s %v for %s", c.name, idOf(doc, attempt), doc.rows, doc.compaction)
	return c.w.db.insert(idOf(doc, attempt), doc)
}

// inTime reports whether every query that sees the buckets finds all of them, and whether there is time to learn the results of
// the commands that end the segments.
func (c *consumer) inTime(p *plan) bool {
	if c.clock()+margin+writeGrace < p.from {
		return true
	}
	c.w.saw(insertedLate)
	return !c.w.with(insertsInTime)
}

// end sets the end of each frozen segment, with separate commands.
func (c *consumer) end(sleep func(int), compaction string, from int, ids []string) bool {
	var calls []*call
	for _, id := range ids {
		calls = append(calls, c.start(func() (int, string) { return c.endOne(compaction, from, id) }))
	}
	return c.send(sleep, calls) || !c.w.with(endsAcked)
}

func (c *consumer) endOne(compaction string, from int, id string) (seq int, err string) {
	return c.w.db.update(id, func(doc *document) bool {
		if doc.until > 0 || doc.compaction != compaction {
			return false
		}
		doc.until = from
		c.w.log("%s ends %s for %s", c.name, id, compaction)
		return true
	})
}
