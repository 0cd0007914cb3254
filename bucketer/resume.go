package bucketer

import "go.mongodb.org/mongo-driver/v2/bson"

// Load takes answers to look-ups: each series reopens a bucket or opens a new one, and its parked measurements go on, up
// to one that asks for what was not looked up ahead. An answer nobody waits for is ignored.
//
// The answers are forgotten afterwards: an answer ahead is as old as the answer that was asked for, and serves only
// measurements that are placed now.
func (c *Catalog) Load(answers []Answer) {
	for len(answers) > 0 {
		first, n := &answers[0].Lookup, 1
		for n < len(answers) && answers[n].Lookup.Ahead && answers[n].Lookup.Series == first.Series {
			n++
		}
		if s := c.series.find([]byte(first.Series)); s != nil && s.isParked() {
			if w := s.more.wanted; w.handed && !first.Ahead && w.lookup.IsSame(first) {
				c.resume(s, answers[:n])
			}
		}
		answers = answers[n:]
	}
}

// resume places the parked measurements of a series. The first answer is for the first of them, the others are for those
// behind it.
func (c *Catalog) resume(s *series, answers []Answer) {
	stale := s.more.wanted.stale
	waiting := c.unpark(s)
	if !stale {
		c.foreseen = foreseen{series: s, answers: answers[1:]}
		first, _ := waiting.next()
		c.answer(s, first, &answers[0])
	}
	for !s.isParked() {
		r, ok := waiting.next()
		if !ok {
			break
		}
		c.put(s, r)
	}
	c.foreseen = foreseen{}
	if s.isParked() {
		c.parkAgain(s, &waiting)
	} else {
		waiting.release(&c.buffers)
	}
	c.retire(s)
}

// answer places the measurement that a look-up was for.
func (c *Catalog) answer(s *series, r row, a *Answer) {
	b, clash := c.reopen(s, r, a)
	archived := a.Lookup.ID != (bson.ObjectID{})
	switch {
	case b != nil:
		c.replaceOpen(s, b, r.elements)
	case archived && clash: // it stays archived
		size, _ := c.options.Limits.Sizes(c.active())
		c.request(s, r, Lookup{Series: s.key, Time: r.time, Size: size})
		return
	case archived:
		c.archive.remove(a.Lookup.ID)
		c.unseen.add(r.time) // its minimum time is not later
	}
	var v survey
	if s.open != nil {
		v = s.open.shape.survey(r.elements)
	}
	c.place(s, r, v, wasAsked)
}

// replaceOpen makes a reopened bucket the open one, in place of the bucket that a measurement would go to.
func (c *Catalog) replaceOpen(s *series, b *bucket, elements []byte) {
	if s.open != nil {
		v := s.open.shape.survey(elements)
		if v.match == clashes {
			v = s.turnTo(elements)
		}
		if v.match != clashes {
			c.rollOver(s.open, softClose, byReopening)
		}
	}
	c.keep(b)
	c.setOpen(s, b)
}

// foreseen are answers that have come before they were asked for, in the order in which they probably will be.
type foreseen struct {
	series  *series
	answers []Answer
}

// take returns the answer to a look-up. Nil means that it was not foreseen. Those before it are not needed any more.
func (f *foreseen) take(s *series, l *Lookup) *Answer {
	if f.series != s {
		return nil
	}
	for i := range f.answers {
		if a := &f.answers[i]; a.Lookup.IsSame(l) {
			f.answers = f.answers[i+1:]
			return a
		}
	}
	return nil
}
