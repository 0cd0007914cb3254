package pipeline

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
)

// compaction is one on its way: its segments are frozen and read, its buckets inserted, its segments ended; or it is rolled back.
type compaction struct {
	claim.Compaction
	step   compactionStep
	rest   []claim.Segment   // that the step has still to change
	part   int               // how many of them are on their way
	writes []*bucketer.Write // not sent yet, or not executed
	acting []*bucketer.Write
	shown  Instant    // when its buckets are
	count  int        // of measurements
	size   int64      // of its segments, in bytes
	bytes  int64      // of its buckets
	read   []bson.Raw // its segments as they were read, until its buckets are stored
	begun  Instant
	oldest Instant // since when its oldest segment is known
	why    string  // it is rolled back, if it is
	left   int     // its segments that are left, because MongoDB refuses a bucket of a series in them
	twice  Instant // from then on queries may show its measurements twice. Zero means that they do not, or that the log says so already.
}

// compactionStep is what a compaction needs next.
type compactionStep uint8

const (
	freezing compactionStep = iota
	readingFrozen
	inserting
	ending
	deleting // of its buckets: it is rolled back
	unfreezing
)

// How long something is not tried again.
const (
	refusedRetry = 10 * time.Minute // what the user has no right to, and segments with a series whose bucket MongoDB refuses
	refusedPause = time.Minute      // a compaction, after one that MongoDB has refused
	damagedRetry = time.Hour        // a segment that could not be compacted
)

// Why a compaction is rolled back, in logs and metrics.
const (
	becauseUnknown = "unknown_outcome"
	becauseLate    = "too_slow"
	becauseRefused = "refused"
	becauseDamaged = "damaged_segment"
	becauseFound   = "left_by_another_owner"
)

func (c *compaction) add(s claim.Segment) {
	c.Segments, c.rest = append(c.Segments, s), append(c.rest, s)
	c.size += s.Bytes
}

func (c *compaction) inSegments() (n int64) {
	for i := range c.Segments {
		n += int64(c.Segments[i].Count)
	}
	return n
}

// compactInterval is how long segments wait; nothing, where no new ones are written.
func (w *Worker) compactInterval(now Instant) time.Duration {
	if w.o.Bucketing.DenseFrom == 0 || w.term.segments.waiting(now) >= w.o.SegmentMeasurements {
		return 0
	}
	return w.o.CompactInterval
}

// compacts tells that a compaction takes memory.
func (w *Worker) compacts() bool {
	c := w.term.segments.compaction
	return c != nil && len(c.writes) > 0
}

// compacting tells that something has begun that is to be finished or rolled back before the partition is handed over.
func (w *Worker) compacting(now Instant) bool {
	s := &w.term.segments
	return w.o.Segments && (s.compaction != nil || !s.read && s.quiet > 0 || w.nextUnfinished(now) >= 0)
}

// crowdedSegments tells that compaction comes before the flush, since too many measurements are in segments.
func (w *Worker) crowdedSegments(now Instant) bool {
	return w.term.segments.waiting(now) >= 2*w.o.SegmentMeasurements
}

// advanceCompaction takes what is to be done about segments a step further.
func (w *Worker) advanceCompaction(m Moment, actions []Action) []Action {
	s := &w.term.segments
	w.warnOfDoubles(m)
	if !w.o.Segments || !m.Held || w.term.restart != nil || w.writing() || w.busy.claim || !s.retry.ready(m.Now) || m.Now <= s.quiet {
		return actions
	}
	if a := w.nextOfCompaction(m); a != nil {
		w.busy.compact, s.since = true, m.Now
		return append(actions, a)
	}
	return actions
}

// nextOfCompaction is the next action. What has begun goes on after a revocation; nothing new begins.
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
			c := &compaction{Compaction: claim.Compaction{ID: w.o.NewToken(), TopicID: taken[0].TopicID}, begun: m.Now, oldest: taken[0].since}
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

// nextUnfinished is a compaction to be finished or rolled back now; -1: there is none.
func (w *Worker) nextUnfinished(now Instant) int {
	s := &w.term.segments
	return slices.IndexFunc(s.unfinished, func(c *compaction) bool { return now >= s.postponed[c.ID] })
}

func (w *Worker) nextStep(m Moment, c *compaction) Action {
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
		return ChangeSegments{&c.Compaction, claim.End, c.nextPart(w.pace.bound)}
	case ending:
		return ChangeSegments{&c.Compaction, claim.End, c.nextPart(w.pace.bound)}
	case deleting:
		return DeleteCompacted{&c.Compaction}
	}
	return ChangeSegments{&c.Compaction, claim.Unfreeze, c.nextPart(w.pace.bound)}
}

// compactLead is how much earlier than its buckets are shown all of them must be stored: so that clocks may differ, servers that are
// read from may be behind, and what becomes of the ends is known by then, by the next owner if need be.
func (w *Worker) compactLead() time.Duration {
	return min(max(w.o.CompactMargin+w.o.Grace, w.o.Wait), w.o.CompactDelay/2)
}

// next takes the writes to be sent now: together no heavier than the bound, and at least one.
func (c *compaction) next(bound int64) []*bucketer.Write {
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

// nextPart takes the segments to be changed now: as many as writes of a flush, and at least one.
func (c *compaction) nextPart(bound int64) []claim.Segment {
	c.part = int(min(max(1, bound/writeWeight), int64(len(c.rest))))
	return c.rest[:c.part]
}

// compactionAnswered notes that an action about segments is done; it is the flush's turn then.
func (w *Worker) compactionAnswered() *segments {
	w.busy.compact, w.term.segments.turn = false, false
	return &w.term.segments
}

// segmentsChanged goes on when all segments have the change.
func (w *Worker) segmentsChanged(m Moment, e SegmentsChanged) {
	s := w.compactionAnswered()
	c := s.compaction
	given, answered := int64(c.part)*writeWeight, int64(c.part)*writeWeight
	if e.Err != nil {
		answered = 0
	}
	w.pace.took(m.Now-s.since, given, answered)
	if e.Err != nil {
		w.doubt(m, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	if c.rest = c.rest[c.part:]; len(c.rest) > 0 {
		return
	}
	switch c.step {
	case freezing:
		c.step = readingFrozen
	case ending:
		w.finishCompaction(m)
	default: // unfrozen: what there is, is read again, and waits for a while
		s.compaction, s.read, s.quiet = nil, false, 0
	}
}

// frozenRead makes buckets of the segments that are frozen. Segments that another process has deleted are forgotten.
func (w *Worker) frozenRead(m Moment, e FrozenRead) {
	s := w.compactionAnswered()
	if e.Err != nil {
		w.compactionFailed(m, readingSegments, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	c := s.compaction
	if len(e.Segments.All) == 0 {
		s.compaction = nil
		return
	}
	c.Segments = e.Segments.All
	c.VisibleFrom, c.shown = e.Segments.Now.Add(w.o.CompactDelay).UnixMilli(), s.since+w.o.CompactDelay
	documents := make([]bson.Raw, len(c.Segments))
	for i := range c.Segments {
		documents[i], c.Segments[i].Document = c.Segments[i].Document, nil
	}
	c.read = documents
	o := w.o.Bucketing
	o.Source = w.source
	o.Source.TopicID = c.TopicID
	buckets, err := bucketer.Compact(o, bucketer.Compaction{ID: c.ID, VisibleFrom: c.VisibleFrom}, documents)
	if damaged := (*bucketer.SegmentError)(nil); errors.As(err, &damaged) {
		w.log.Error("segment cannot be compacted: something else has edited it; it stays as it is and is shown", "segment", damaged.ID.Hex(), "err", damaged.Err)
		s.leave(damaged.ID, m.Now+damagedRetry)
		w.rollBack(m, becauseDamaged)
		return
	}
	c.twice = c.shown
	c.step, c.writes, c.count, c.bytes = inserting, buckets.Writes, buckets.Measurements, int64(buckets.Bytes)
}

// compactedInserted notes what became of buckets. Whatever is not certain makes all of the compaction be rolled back.
func (w *Worker) compactedInserted(m Moment, e CompactedInserted) {
	s := w.compactionAnswered()
	c := s.compaction
	var failed, unknown error
	var refused refusals
	for i := range e.Sent {
		switch one := &e.Sent[i]; one.Result {
		case bucketer.Applied:
		case bucketer.NotExecuted:
			c.writes = append(c.writes, c.acting[i])
			if !errors.Is(one.Err, claim.ErrNoTurn) {
				failed = one.Err
			}
		case bucketer.Unknown:
			unknown = one.Err
			if unknown == nil {
				unknown = errors.New(one.Message)
			}
		default:
			refused.add(c.acting[i], one.Message)
		}
	}
	c.acting = nil
	switch {
	case unknown != nil:
		w.doubt(m, unknown)
	case len(refused.metas) > 0:
		w.compactionRefused(m, c, &refused)
	case failed != nil:
		w.compactionFailed(m, compactingSegments, failed)
	default:
		w.succeeded(&s.retry, MongoDB)
	}
}

// compactedDeleted gives the segments free next. Where the user may not delete, the buckets are hidden, and the segments of this
// compaction stay frozen until the user gets the right; the others go on.
func (w *Worker) compactedDeleted(m Moment, e CompactedDeleted) {
	s := w.compactionAnswered()
	c := s.compaction
	switch {
	case errors.Is(e.Err, claim.ErrUnauthorized):
		if s.postponed == nil {
			s.postponed = map[claim.Token]Instant{}
		}
		s.postponed[c.ID] = m.Now + refusedRetry
		c.twice = 0
		s.unfinished, s.compaction = append(s.unfinished, c), nil
		w.metrics.failed(compactingSegments)
		w.log.Warn("compaction cannot be rolled back: this user may not delete its buckets; they stay hidden, its segments are shown, and other segments are compacted",
			"compaction", c.ID.String(), "measurements", c.inSegments(), "err", e.Err)
	case e.Err != nil:
		w.doubt(m, e.Err)
	default:
		w.succeeded(&s.retry, MongoDB)
		c.step, c.rest, c.twice = unfreezing, c.Segments, 0
	}
}

// rollBack rolls back what is under way, of which every command was answered.
func (w *Worker) rollBack(m Moment, why string) {
	c := w.term.segments.compaction
	c.step, c.why, c.writes, c.rest, c.read = deleting, why, nil, nil, nil
	w.rolledBack(m, c)
}

// rolledBack tells of a roll-back, and makes the next compactions smaller, unless it is known which segments were to blame. A segment
// that is refused alone is left alone for a while.
func (w *Worker) rolledBack(m Moment, c *compaction) {
	s := &w.term.segments
	if c.why == becauseRefused && c.left == 0 {
		if s.resumes = m.Now + refusedPause; len(c.Segments) == 1 {
			s.leave(c.Segments[0].ID, m.Now+damagedRetry)
		}
	}
	if c.why != becauseDamaged && c.left == 0 {
		w.past.compactBytes = max(1, min(w.past.compactBytes, c.size)/2) // one segment is always taken
	}
	w.metrics.rolledBack(c.why)
	w.log.Warn("compaction rolled back: its segments stay and are compacted later", "compaction", c.ID.String(), "why", c.why, "segments", len(c.Segments),
		"measurements", c.inSegments(), "next_bytes", w.past.compactBytes)
}

// doubt waits after a command of which it is not known what became, and then reads what there is: if a segment has ended the
// others end as well, else the compaction is rolled back. There is no release before (E4). What the user has no right to was not
// executed.
func (w *Worker) doubt(m Moment, err error) {
	s := &w.term.segments
	if !errors.Is(err, claim.ErrUnauthorized) {
		s.quiet = m.Now + w.o.Grace
		w.past.unknownUntil = max(w.past.unknownUntil, s.quiet)
	} else {
		s.quiet = m.Now
	}
	c := s.compaction
	if c.why = becauseUnknown; errors.Is(err, claim.ErrRefused) {
		c.why = becauseRefused
	}
	says := "outcome of a compaction step unknown: the compaction is finished or rolled back once none of its commands can be executed any more"
	if c.why == becauseRefused {
		says = "MongoDB refuses a compaction step: the compaction is finished or rolled back"
	}
	w.log.Warn(says, "compaction", c.ID.String(), "why", c.why, "err", err)
	c.read = nil
	s.compaction, s.doubted, s.read = nil, c, false
	w.compactionFailed(m, compactingSegments, err)
}

// compactionFailed postpones the next step, unless there is another owner.
func (w *Worker) compactionFailed(m Moment, trying doing, err error) {
	if errors.Is(err, claim.ErrOtherOwner) {
		w.claimAgain()
		return
	}
	w.failed(m, &w.term.segments.retry, MongoDB, trying, err)
}

// finishCompaction goes on after all segments of a compaction have ended.
func (w *Worker) finishCompaction(m Moment) {
	s := &w.term.segments
	c := s.compaction
	s.compaction = nil
	if c.shown == 0 { // by an owner before: the segments that had ended are not known here
		s.read, s.quiet = false, 0
	} else {
		s.end(c.Segments, time.UnixMilli(c.VisibleFrom), m.Now+w.o.CompactDelay+w.o.SegmentRetention)
		w.past.compactBytes = min(w.o.CompactBytes, max(w.past.compactBytes, 2*c.size))
	}
	w.metrics.compacted(c.count, m.Now-c.begun)
}

// segmentsSwept goes on without deleting anything for a while where the user may not delete: what has ended is not shown, and nothing
// waits for its end.
func (w *Worker) segmentsSwept(m Moment, e SegmentsSwept) {
	s := w.compactionAnswered()
	switch {
	case errors.Is(e.Err, claim.ErrUnauthorized):
		s.sweepFrom = m.Now + refusedRetry
		w.metrics.failed(compactingSegments)
		w.log.Warn("ended segments cannot be deleted and take room: this user has no right to; compaction goes on", "err", e.Err)
	case e.Err != nil:
		w.past.unknownUntil = max(w.past.unknownUntil, m.Now+w.o.Grace)
		w.compactionFailed(m, compactingSegments, e.Err)
	default:
		w.succeeded(&s.retry, MongoDB)
		s.ended = s.ended[1:]
	}
}

// warnOfDoubles says once of each compaction that its buckets may be shown while its segments have not all ended.
func (w *Worker) warnOfDoubles(m Moment) {
	s := &w.term.segments
	warn := func(c *compaction) {
		if c == nil || c.twice == 0 || m.Now < c.twice {
			return
		}
		w.log.Warn("queries may see measurements twice until a compaction is finished or rolled back: raise COMPACT_VISIBILITY_DELAY if this happens often",
			"compaction", c.ID.String(), "measurements", c.inSegments(), "since", m.Now-c.twice)
		c.twice = 0
	}
	warn(s.compaction)
	warn(s.doubted)
	for _, c := range s.unfinished {
		warn(c)
	}
}

// tellUnfinished says what an end of the term leaves behind.
func (w *Worker) tellUnfinished(now Instant) {
	s := &w.term.segments
	c := s.compaction
	if c == nil && now > s.quiet && !w.busy.compact {
		return
	}
	args := []any{}
	if c = cmp.Or(c, s.doubted); c != nil {
		args = append(args, "compaction", c.ID.String(), "measurements", c.inSegments())
		if c.VisibleFrom != 0 {
			args = append(args, "twice_from", time.UnixMilli(c.VisibleFrom).UTC())
		}
	}
	w.log.Warn("compaction unfinished: the next owner of the partition finishes it or rolls it back; "+
		"queries may see its measurements twice if none has by the time twice_from", args...)
}
