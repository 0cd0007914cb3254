package bucketer

import "go.mongodb.org/mongo-driver/v2/bson"

// Load takes answers to look-ups. Each series reopens a bucket or opens a new one. Its parked measurements go on, up to one
// whose own look-up was not made ahead. An answer that no series waits for is ignored.
//
// The answers are forgotten afterwards. An answer ahead is as old as the answer that was asked for, so it serves only
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

// resume places the parked measurements of a series. The first answer is for the first measurement, the others are for those
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

// answer places the measurement whose look-up was answered.
func (c *Catalog) answer(s *series, r row, a *Answer) {
	b, clash := c.reopen(s, r, a)
	archived := a.Lookup.ID != (bson.ObjectID{})
	switch {
	case b != nil:
		c.replaceOpen(s, b, r.elements)
	case archived && clash: // the bucket stays archived
		size, _ := c.options.Limits.Sizes(c.active())
		c.request(s, r, Lookup{Series: s.key, Time: r.time, Size: size})
		return
	case archived:
		c.archive.remove(a.Lookup.ID)
		c.unseen.add(r.time) // the bucket's minimum time is not later
	}
	var v survey
	if s.open != nil {
		v = s.open.shape.survey(r.elements)
	}
	c.place(s, r, v, wasAsked)
}

// replaceOpen makes a reopened bucket the open one. It replaces the open bucket that the measurement fits, if there is one.
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

// foreseen holds answers that came before they were asked for, in the probable order of asking.
type foreseen struct {
	series  *series
	answers []Answer
}

// take returns the answer to a look-up and drops the answers before it. Nil means that no answer was foreseen.
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
