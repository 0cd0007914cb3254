package bucketer

import "slices"

// A bucket never holds values of two canonical types at one path. A series whose values change their types to and fro has an
// open bucket for each combination of types. Otherwise each change would cost a bucket.
const (
	// openKinds is the largest number of open buckets of a series. One more closes the least recently used bucket.
	openKinds = 4
	// compactedKinds is openKinds for a compaction. There all buckets stay in memory until the end, so more may be open.
	compactedKinds = 64
)

// turnTo makes the most recently used of the other open buckets that does not clash with a measurement the open bucket of the
// series. It returns the survey against that bucket, or a survey that clashes if no bucket fits.
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

// setOpen makes a bucket the open bucket of its series. If too many are open, it closes the least recently used.
func (c *Catalog) setOpen(s *series, b *bucket) {
	if s.open != nil {
		if all := slices.Collect(s.opened); len(all) == c.mostOpen {
			c.rollOver(all[len(all)-1], hardClose, bySchemaChange)
		}
	}
	if s.open != nil { // nil if only one may be open, which is closed now
		x := c.extra(s)
		before := cap(x.others)
		x.others = slices.Insert(x.others, 0, s.open)
		c.memory.series += int64(cap(x.others)-before) * pointerBytes
	}
	s.open = b
}

// rollPassed rolls over the open buckets of a series whose windows end before a time.
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

// opened yields the open buckets, the most recently used first. No bucket may be opened or rolled over meanwhile.
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

// withdraw takes a bucket out of the open buckets, and reports whether it was open. The most recently used other bucket becomes
// the open bucket of the series.
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
