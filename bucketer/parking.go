package bucketer

import "unsafe"

// wanted is the look-up that a series waits for.
type wanted struct {
	lookup Lookup
	handed bool  // Lookups has returned it
	stale  bool  // the answer may be outdated; place the measurements anew
	oldest int64 // smallest offset of the parked measurements
}

const (
	wantedBytes = int64(unsafe.Sizeof(wanted{})+15) &^ 15
	parkedBytes = int64(unsafe.Sizeof(parkedSince{}))
)

// parkedSince says that a series has a parked measurement with this offset. It counts only while the series waits for the same
// look-up.
type parkedSince struct {
	offset int64
	series *series
	wanted *wanted
}

func (p parkedSince) holds() bool {
	return p.series.more != nil && p.series.more.wanted == p.wanted && p.wanted.oldest == p.offset
}

// parking knows all series that wait for a look-up.
type parking struct {
	series int
	queue  []*series     // series whose look-ups were not handed out yet, in the order of asking
	heap   []parkedSince // a binary heap by offset, with some outdated entries
}

// bytes is the memory of the parking without the measurements.
func (p *parking) bytes() int64 {
	return int64(p.series)*wantedBytes + int64(cap(p.queue))*8 + int64(cap(p.heap))*parkedBytes
}

// askFor looks for a stored bucket for a measurement before its series opens another one. It asks for an archived bucket of the
// measurement's window, or else for any bucket if a query is allowed. The measurement is placed when the answer comes. If the
// answer is already there, that is at once; otherwise the measurement is parked. False means that there is nothing to ask.
func (c *Catalog) askFor(s *series, r row, query bool) bool {
	if !c.options.Reopen {
		return false
	}
	lookup := Lookup{Series: s.key, Time: r.time}
	if id, _, ok := c.archive.find(s.key, r.time, c.span); ok && !s.excludes(id) {
		lookup.ID = id
	} else if query && c.mayFind(s, r.time) {
		lookup.Size, _ = c.options.Limits.Sizes(c.active())
	} else {
		return false
	}
	c.request(s, r, lookup)
	return true
}

// request places a measurement when its look-up is answered.
func (c *Catalog) request(s *series, r row, lookup Lookup) {
	if a := c.foreseen.take(s, &lookup); a != nil {
		c.answer(s, r, a)
		return
	}
	lookup.Meta = s.meta()
	c.extra(s).wanted = &wanted{lookup: lookup, oldest: r.position.Offset}
	c.lookups.series++
	c.lookups.queue = append(c.lookups.queue, s)
	c.lookups.note(s)
	c.park(s, r)
}

// park adds a measurement to the parked ones of its series.
func (c *Catalog) park(s *series, r row) {
	s.more.parked.push(r, &c.buffers)
	c.lookups.lower(s, r.position.Offset)
}

// unpark takes the parked measurements out. The caller then owns them.
func (c *Catalog) unpark(s *series) line {
	waiting := s.more.parked
	s.more.parked, s.more.wanted = line{}, nil
	c.lookups.series--
	return waiting
}

// parkAgain takes back the rest of what unpark returned, behind measurements that were parked since.
func (c *Catalog) parkAgain(s *series, rest *line) {
	if oldest, ok := rest.oldest(); ok {
		c.lookups.lower(s, oldest)
	}
	s.more.parked.follow(rest, &c.buffers)
}

// lower notes that a series has a parked measurement of this offset.
func (p *parking) lower(s *series, offset int64) {
	if w := s.more.wanted; offset < w.oldest {
		w.oldest = offset
		p.note(s)
	}
}

// take returns up to max series whose look-ups were not handed out before, in the order of asking.
func (p *parking) take(max int) []*series {
	var first []*series
	taken := 0
	for _, s := range p.queue {
		if len(first) == max {
			break
		}
		taken++
		if s.isParked() && !s.more.wanted.handed {
			s.more.wanted.handed = true
			first = append(first, s)
		}
	}
	clear(p.queue[:taken])
	if p.queue = p.queue[taken:]; len(p.queue) == 0 {
		p.queue = nil
	}
	return first
}

// note remembers the smallest offset of a parked series.
func (p *parking) note(s *series) {
	if len(p.heap) > 2*p.series+64 {
		p.rebuild()
	}
	p.heap = append(p.heap, parkedSince{offset: s.more.wanted.oldest, series: s, wanted: s.more.wanted})
	p.up(len(p.heap) - 1)
}

// rebuild drops outdated entries.
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
