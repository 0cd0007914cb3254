package bucketer

import "slices"

// A bucket never holds values of two canonical types at one path. A series whose values change their types to and fro has a
// bucket open for each combination of types: otherwise each change would cost a bucket.
const (
	// openKinds is how many buckets of a series are open at most. A further one takes the place of the least recently used.
	openKinds = 4
	// settledKinds is openKinds for settling. Nothing is written before all is placed, so more open buckets take no memory.
	settledKinds = 64
)

// turnTo makes another open bucket of the series the one that is used next: the one used last that does not clash with
// a measurement. It returns the survey against it, which clashes if there is none.
func (s *series) turnTo(elements []byte) survey {
	if s.more == nil {
		return survey{match: clashes}
	}
	for at, b := range s.more.others {
		if v := b.shape.survey(elements); v.match != clashes {
			copy(s.more.others[1:at+1], s.more.others[:at])
			s.more.others[0], s.open = s.open, b
			return v
		}
	}
	return survey{match: clashes}
}

// setOpen makes a bucket the open one that is used next. Of too many the least recently used is closed.
func (c *Catalog) setOpen(s *series, b *bucket) {
	if s.open != nil {
		if all := slices.Collect(s.opened); len(all) == c.mostOpen {
			c.rollOver(all[len(all)-1], hardClose, bySchemaChange)
		}
	}
	if s.open != nil { // it is not if only one may be open
		x := c.extra(s)
		before := cap(x.others)
		x.others = slices.Insert(x.others, 0, s.open)
		c.memory.series += int64(cap(x.others)-before) * pointerBytes
	}
	s.open = b
}

// rollPassed rolls over the open buckets of a series whose windows have ended at a time.
func (c *Catalog) rollPassed(s *series, time int64) {
	if s.open == nil {
		return
	}
	var passed []*bucket
	for b := range s.opened {
		if time >= b.minTime && spanExceeded(time, b.minTime, c.span) {
			passed = append(passed, b)
		}
	}
	for _, b := range passed {
		c.rollOver(b, softClose, byTimeForward)
	}
}

// opened yields the open buckets, the one used last first. None may be opened or rolled over meanwhile.
func (s *series) opened(yield func(*bucket) bool) {
	if s.open == nil || !yield(s.open) || s.more == nil {
		return
	}
	for _, b := range s.more.others {
		if !yield(b) {
			return
		}
	}
}

// withdraw makes a bucket none of the open ones; false: it was none. The one used last of the others takes its place.
func (s *series) withdraw(b *bucket) bool {
	switch {
	case s.open == b && (s.more == nil || len(s.more.others) == 0):
		s.open = nil
	case s.open == b:
		s.open = s.more.others[0]
		s.more.others = slices.Delete(s.more.others, 0, 1)
	case s.more == nil:
		return false
	default:
		at := slices.Index(s.more.others, b)
		if at < 0 {
			return false
		}
		s.more.others = slices.Delete(s.more.others, at, at+1)
	}
	return true
}
