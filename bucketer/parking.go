package bucketer

import (
	"unsafe"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// wanted is the look-up a series waits for.
type wanted struct {
	lookup Lookup
	handed bool  // Lookups has returned it
	stale  bool  // what the answer says may have changed since: place the measurements anew
	oldest int64 // smallest offset of the parked measurements
}

const (
	wantedBytes = int64(unsafe.Sizeof(wanted{})+15) &^ 15
	parkedBytes = int64(unsafe.Sizeof(parkedSince{}))
)

// parkedSince says that a series has a parked measurement of this offset, if it still waits for the same look-up.
type parkedSince struct {
	offset int64
	series *series
	wanted *wanted
}

func (p parkedSince) holds() bool {
	return p.series.more != nil && p.series.more.wanted == p.wanted && p.wanted.oldest == p.offset
}

// parking is all series that wait for a look-up.
type parking struct {
	series int
	queue  []*series     // whose look-ups were not handed out yet, first asked first
	heap   []parkedSince // a binary heap by offset, which also holds what is no longer true
}

// bytes is the memory of all that, without the measurements.
func (p *parking) bytes() int64 {
	return int64(p.series)*wantedBytes + int64(cap(p.queue))*8 + int64(cap(p.heap))*parkedBytes
}

// askFor parks a measurement if there is something to ask before its series opens another bucket: for an archived bucket
// of its window, else, if a query is allowed, for any stored one.
func (c *Catalog) askFor(s *series, r row, query bool) bool {
	if !c.options.Reopen {
		return false
	}
	lookup := Lookup{Series: s.key, Meta: s.meta(), Time: r.time}
	if id, ok := c.archive.find(s.key, r.time, c.span); ok && !s.excludes(id) {
		lookup.ID = id
	} else if query {
		lookup.Size, _ = c.options.Limits.Sizes(c.active())
	} else {
		return false
	}
	c.extra(s).wanted = &wanted{lookup: lookup, oldest: r.position.Offset}
	c.lookups.series++
	c.lookups.queue = append(c.lookups.queue, s)
	c.lookups.note(s)
	c.park(s, r)
	return true
}

// park adds a measurement to those of its series that wait.
func (c *Catalog) park(s *series, r row) {
	s.more.parked.push(r, &c.buffers)
	if w := s.more.wanted; r.position.Offset < w.oldest {
		w.oldest = r.position.Offset
		c.lookups.note(s)
	}
}

// Lookups returns up to max of the look-ups that were not handed out before, first asked first. Each waits for its
// Answer in Load.
func (c *Catalog) Lookups(max int) []Lookup {
	var out []Lookup
	taken := 0
	for _, s := range c.lookups.queue {
		if len(out) == max {
			break
		}
		taken++
		if s.isParked() && !s.more.wanted.handed {
			s.more.wanted.handed = true
			out = append(out, s.more.wanted.lookup)
		}
	}
	clear(c.lookups.queue[:taken])
	if c.lookups.queue = c.lookups.queue[taken:]; len(c.lookups.queue) == 0 {
		c.lookups.queue = nil
	}
	return out
}

// unpark takes the parked measurements out, which the caller then owns.
func (c *Catalog) unpark(s *series) rows {
	waiting := s.more.parked
	s.more.parked, s.more.wanted = rows{}, nil
	c.lookups.series--
	return waiting
}

// note remembers the smallest offset of a parked series.
func (p *parking) note(s *series) {
	if len(p.heap) > 2*p.series+64 {
		p.rebuild()
	}
	p.heap = append(p.heap, parkedSince{offset: s.more.wanted.oldest, series: s, wanted: s.more.wanted})
	p.up(len(p.heap) - 1)
}

// rebuild drops what is no longer true.
func (p *parking) rebuild() {
	kept := p.heap[:0]
	for _, entry := range p.heap {
		if entry.holds() {
			kept = append(kept, entry)
		}
	}
	clear(p.heap[len(kept):])
	p.heap = kept
	for at := len(kept)/2 - 1; at >= 0; at-- {
		p.down(at)
	}
}

// oldest is the smallest offset of all parked measurements.
func (p *parking) oldest() (int64, bool) {
	for len(p.heap) > 0 {
		if p.heap[0].holds() {
			return p.heap[0].offset, true
		}
		last := len(p.heap) - 1
		p.heap[0], p.heap[last] = p.heap[last], parkedSince{}
		p.heap = p.heap[:last]
		p.down(0)
	}
	return 0, false
}

func (p *parking) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if p.heap[parent].offset <= p.heap[at].offset {
			return
		}
		p.heap[parent], p.heap[at] = p.heap[at], p.heap[parent]
		at = parent
	}
}

func (p *parking) down(at int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(p.heap); child++ {
			if p.heap[child].offset < p.heap[least].offset {
				least = child
			}
		}
		if least == at {
			return
		}
		p.heap[at], p.heap[least] = p.heap[least], p.heap[at]
		at = least
	}
}

// Load takes answers to look-ups: each series reopens a bucket or opens a new one, and its parked measurements go on, up
// to one that has to ask again. An answer nobody waits for is ignored.
func (c *Catalog) Load(answers []Answer) {
	for i := range answers {
		a := &answers[i]
		s := c.series[a.Lookup.Series]
		if s == nil || !s.isParked() {
			continue
		}
		w := s.more.wanted
		if !w.handed || w.lookup.ID != a.Lookup.ID || w.lookup.Time != a.Lookup.Time {
			continue
		}
		c.resume(s, a)
	}
}

// resume places the parked measurements of a series.
func (c *Catalog) resume(s *series, a *Answer) {
	stale := s.more.wanted.stale
	waiting := c.unpark(s)
	rest := waiting.buf
	if !stale {
		var first row
		first, rest = readRow(rest)
		c.answer(s, first, a)
	}
	for len(rest) > 0 {
		var r row
		r, rest = readRow(rest)
		c.put(s, r)
	}
	c.buffers.release(waiting.buf)
	c.retire(s)
}

// answer places the measurement that a look-up was for.
func (c *Catalog) answer(s *series, r row, a *Answer) {
	if b := c.reopen(s, r.time, a); b != nil {
		if s.open != nil {
			c.rollOver(s.open, softClose, byReopening)
		}
		c.keep(b)
		s.open = b
	} else if a.Lookup.ID != (bson.ObjectID{}) {
		c.archive.remove(a.Lookup.ID)
	}
	var v survey
	if s.open != nil {
		v = s.open.shape.survey(r.elements)
	}
	c.place(s, r, v, wasAsked)
}
