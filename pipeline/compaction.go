package pipeline

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
)

// compacting is a compaction under way. It freezes and reads its segments, inserts its buckets and ends its segments; or it is
// rolled back.
type compacting struct {
	claim.Compaction
	step   compactionStep
	rest   []claim.Segment   // segments that the step has not changed yet
	part   int               // how many of rest are under way
	writes []*bucketer.Write // not sent yet, or not executed
	acting []*bucketer.Write
	shown  Instant    // when queries begin to see its buckets
	count  int        // of measurements
	size   int64      // of its segments, in bytes
	bytes  int64      // of its buckets
	read   []bson.Raw // its segments as they were read, until its buckets are stored
	begun  Instant
	oldest Instant // when its oldest segment became known
	why    string  // the reason of a roll-back, otherwise empty
	left   int     // how many of its segments are left aside, because MongoDB refuses the bucket of one of their series
	// twice is the moment from which queries may see its measurements twice. Zero means that they cannot, or that the log says so
	// already.
	twice Instant
}

// compactionStep is what a compaction needs next.
type compactionStep uint8

const (
	freezing compactionStep = iota
	readingFrozen
	inserting
	ending
	deleting // its buckets, because it is rolled back
	unfreezing
)

// Delays before something is tried again.
const (
	refusedRetry = 10 * time.Minute // what the user has no right to do, and segments with a series whose bucket MongoDB refuses
	refusedPause = time.Minute      // the next compaction, after MongoDB has refused one
	damagedRetry = time.Hour        // a segment that could not be compacted
)

// Reasons for rolling a compaction back, in logs and metrics.
const (
	becauseUnknown = "unknown_outcome"
	becauseLate    = "too_slow"
	becauseRefused = "refused"
	becauseDamaged = "damaged_segment"
	becauseFound   = "left_by_another_owner"
)

func (c *compacting) add(s claim.Segment) {
	c.Segments, c.rest = append(c.Segments, s), append(c.rest, s)
	c.size += s.Bytes
}

func (c *compacting) inSegments() (n int64) {
	for i := range c.Segments {
		n += int64(c.Segments[i].Count)
	}
	return n
}

// compactInterval is how long segments wait before they are compacted. It is zero if no new segments are written, or if segments
// hold SegmentMeasurements or more.
func (w *Worker) compactInterval(now Instant) time.Duration {
	if w.o.Bucketing.DenseFrom == 0 || w.term.segments.waiting(now) >= w.o.SegmentMeasurements {
		return 0
	}
	return w.o.CompactInterval
}

// compacts reports whether a compaction holds encoded buckets in memory.
func (w *Worker) compacts() bool {
	c := w.term.segments.compaction
	return c != nil && len(c.writes) > 0
}

// compacting reports whether a compaction must be finished or rolled back before the partition is handed over.
func (w *Worker) compacting(now Instant) bool {
	s := &w.term.segments
	return w.o.Segments && (s.compaction != nil || !s.read && s.quiet > 0 || w.nextUnfinished(now) >= 0)
}

// crowdedSegments reports whether compaction comes before the flush, because segments hold too many measurements.
func (w *Worker) crowdedSegments(now Instant) bool {
	return w.term.segments.waiting(now) >= 2*w.o.SegmentMeasurements
}

// advanceCompaction starts the next action about segments.
func (w *Worker) advanceCompaction(m Moment) {
	s := &w.term.segments
	w.warnOfDoubles(m)
	if !w.o.Segments || !m.Held || w.term.restart != nil || w.writing() || w.busy.claim || !s.retry.ready(m.Now) || m.Now <= s.quiet {
		return
	}
	if a := w.nextOfCompaction(m); a != nil {
		s.since = m.Now
		w.start(&w.busy.compact, a)
	}
}

// nextOfCompaction returns the next action. After a revocation a compaction that has begun goes on, but no new one begins.
func (w *Worker) nextOfCompaction(m Moment) Action {
	s := &w.term.segments
	if s.compaction != nil {
		return w.nextStep(m, s.compaction)
	}
	switch {
	case w.term.revoked && w.term.handing != notHanding:
		return nil
	case !s.read && (s.quiet > 0 || !w.term.revoked):
		return ReadSegments{}
	}
	if i := w.nextUnfinished(m.Now); i >= 0 {
		s.compaction = s.unfinished[i]
		s.unfinished = slices.Delete(s.unfinished, i, i+1)
		if _, again := s.postponed[s.compaction.ID]; !again && s.compaction.step == deleting {
			w.rolledBack(m, s.compaction)
		}
		return w.nextStep(m, s.compaction)
	}
	switch {
	case w.term.revoked:
	case len(s.ended) > 0 && m.Now >= max(s.ended[0].due, s.sweepFrom):
		return SweepSegments{Segments: s.ended[0].segments, Before: s.ended[0].until.Add(time.Millisecond)}
	case m.Compacting || m.Now < s.resumes:
	default:
		if taken := s.toCompact(m.Now, w.compactInterval(m.Now), w.o.CompactBytes, w.past.compactBytes); taken != nil {
			c := &compacting{Compaction: claim.Compaction{ID: w.o.NewToken(), TopicID: taken[0].TopicID}, begun: m.Now, oldest: taken[0].since}
			for i := range taken {
				c.add(taken[i].Segment)
			}
			s.compaction = c
			s.drop(c.Segments)
			return w.nextStep(m, c)
		}
	}
	return nil
}

// nextUnfinished is the index of a compaction to finish or roll back now. -1 means that there is none.
func (w *Worker) nextUnfinished(now Instant) int {
	s := &w.term.segments
	return slices.IndexFunc(s.unfinished, func(c *compacting) bool { return now >= s.postponed[c.ID] })
}

func (w *Worker) nextStep(m Moment, c *compacting) Action {
	switch c.step {
	case freezing:
		return ChangeSegments{&c.Compaction, claim.Freeze, c.nextPart(w.pace.bound)}
	case readingFrozen:
		return ReadFrozen{&c.Compaction}
	case inserting:
		if m.Now >= c.shown-w.compactLead() { // a query might see neither its segments nor its buckets
			w.rollBack(m, becauseLate)
			return DeleteCompacted{&c.Compaction}
		}
		if len(c.writes) > 0 {
			c.acting = c.next(w.pace.bound)
			return InsertCompacted{c.acting}
		}
		c.step, c.rest, c.read = ending, c.Segments, nil
		fallthrough
	case ending:
		return ChangeSegments{&c.Compaction, claim.End, c.nextPart(w.pace.bound)}
	case deleting:
		return DeleteCompacted{&c.Compaction}
	}
	return ChangeSegments{&c.Compaction, claim.Unfreeze, c.nextPart(w.pace.bound)}
}

// compactLead is how long before its buckets are shown a compaction must have stored all of them. The time covers clocks that
// differ and secondaries that lag. It also lets this or the next owner find out whether the segments have ended.
func (w *Worker) compactLead() time.Duration {
	return min(max(w.o.CompactMargin+w.o.WriteGrace, w.o.Wait), w.o.CompactDelay/2)
}

// next takes the writes to be sent now: at least one, and no more than the bound allows together.
func (c *compacting) next(bound int64) []*bucketer.Write {
	n := 0
	for weight := int64(0); n < len(c.writes); n++ {
		if weight += weigh(c.writes[n]); n > 0 && weight > bound {
			break
		}
	}
	sent := c.writes[:n:n]
	c.writes = c.writes[n:]
	return sent
}

// nextPart takes the segments to be changed now: at least one, and as many as a flush may send writes.
func (c *compacting) nextPart(bound int64) []claim.Segment {
	c.part = int(min(max(1, bound/writeWeight), int64(len(c.rest))))
	return c.rest[:c.part]
}
