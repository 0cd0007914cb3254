package pipeline

import (
	"cmp"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// compactionAnswered notes that the action about segments is done. The next turn is the flush's.
func (w *Worker) compactionAnswered() *segments {
	w.busy.compact, w.term.segments.turn = false, false
	return &w.term.segments
}

// handle goes to the next step when all segments have the change.
func (e SegmentsChanged) handle(w *Worker, m Moment) {
	s := w.compactionAnswered()
	c := s.compaction
	weight := int64(c.part) * writeWeight
	if e.Err != nil {
		w.pace.took(m.Now-s.since, weight, 0)
		w.doubt(m, e.Err)
		return
	}
	w.pace.took(m.Now-s.since, weight, weight)
	w.succeeded(&s.retry, MongoDB)
	if c.rest = c.rest[c.part:]; len(c.rest) > 0 {
		return
	}
	switch c.step {
	case freezing:
		c.step = readingFrozen
	case ending:
		w.finishCompaction(m)
	default: // After unfreezing, the segments are read again and wait for a while.
		s.compaction, s.read, s.quiet = nil, false, 0
	}
}

// handle makes buckets of the frozen segments. It forgets segments that another process has deleted.
func (e FrozenRead) handle(w *Worker, m Moment) {
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
	buckets, err := bucketer.Compact(o, bucketer.CompactionMark{ID: c.ID, VisibleFrom: c.VisibleFrom}, documents)
	if damaged, ok := errors.AsType[*bucketer.SegmentError](err); ok {
		w.log.Error("segment cannot be compacted, because another program has edited it: the segment stays, and queries still read it", "segment", damaged.ID.Hex(), "err", damaged.Err)
		s.leave(damaged.ID, m.Now+damagedRetry)
		w.rollBack(m, becauseDamaged)
		return
	}
	c.twice = c.shown
	c.step, c.writes, c.count, c.bytes = inserting, buckets.Writes, buckets.Measurements, int64(buckets.Bytes)
}

// handle notes the outcomes of buckets. An unknown outcome leads to reading the segments again, a refusal to a
// roll-back.
func (e CompactedInserted) handle(w *Worker, m Moment) {
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

// handle unfreezes the segments next. If the user may not delete, the buckets stay hidden. The segments of this
// compaction then stay frozen until the user gets the right, and other segments go on.
func (e CompactedDeleted) handle(w *Worker, m Moment) {
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
		w.log.Warn("compaction was not rolled back: this MongoDB user may not delete the buckets that the compaction wrote. No measurement is lost: these buckets stay hidden, and queries read the segments. Other compactions continue",
			"compaction", c.ID.String(), "measurements", c.inSegments(), "err", e.Err)
	case e.Err != nil:
		w.doubt(m, e.Err)
	default:
		w.succeeded(&s.retry, MongoDB)
		c.step, c.rest, c.twice = unfreezing, c.Segments, 0
	}
}

// rollBack rolls back the compaction under way. All of its commands were answered.
func (w *Worker) rollBack(m Moment, why string) {
	c := w.term.segments.compaction
	c.step, c.why, c.writes, c.rest, c.read = deleting, why, nil, nil, nil
	w.rolledBack(m, c)
}

// rolledBack logs a roll-back. It makes the next compactions smaller, unless the segments at fault are known. A segment that is
// refused alone is left aside for a while.
func (w *Worker) rolledBack(m Moment, c *compacting) {
	s := &w.term.segments
	if c.why == becauseRefused && c.left == 0 {
		if s.resumes = m.Now + refusedPause; len(c.Segments) == 1 {
			s.leave(c.Segments[0].ID, m.Now+damagedRetry)
		}
	}
	if c.why != becauseDamaged && c.left == 0 {
		w.past.compactBytes = max(1, min(w.past.compactBytes, c.size)/2) // at least one segment is always taken
	}
	w.metrics.rolledBack(c.why)
	w.log.Warn("compaction rolled back: its segments stay and are compacted later", "compaction", c.ID.String(), "why", c.why, "segments", len(c.Segments),
		"measurements", c.inSegments(), "next_bytes", w.past.compactBytes)
}

// doubt waits after a command with an unknown outcome, and then reads the segments again. If one has ended, the others end as
// well; otherwise the compaction is rolled back. There is no release before (E4). A command that the user has no right to was
// not executed, so it needs no wait.
func (w *Worker) doubt(m Moment, err error) {
	s := &w.term.segments
	if !errors.Is(err, claim.ErrUnauthorized) {
		s.quiet = m.Now + w.o.WriteGrace
		w.past.unknownUntil = max(w.past.unknownUntil, s.quiet)
	} else {
		s.quiet = m.Now
	}
	c := s.compaction
	if c.why = becauseUnknown; errors.Is(err, claim.ErrRefused) {
		c.why = becauseRefused
	}
	says := "outcome of a compaction step unknown: the consumer waits until MongoDB can no longer execute the commands of the compaction, and then finishes the compaction or rolls it back"
	if c.why == becauseRefused {
		says = "MongoDB refuses a compaction step: the consumer finishes the compaction or rolls it back"
	}
	w.log.Warn(says, "compaction", c.ID.String(), "why", c.why, "err", err)
	c.read = nil
	s.compaction, s.doubted, s.read = nil, c, false
	w.compactionFailed(m, compactingSegments, err)
}

// compactionFailed postpones the next step. If another owner was found, the partition is claimed again instead.
func (w *Worker) compactionFailed(m Moment, trying operation, err error) {
	if errors.Is(err, claim.ErrOtherOwner) {
		w.claimAgain()
		return
	}
	w.failed(m, &w.term.segments.retry, MongoDB, trying, err)
}

// finishCompaction ends a compaction after all of its segments have ended.
func (w *Worker) finishCompaction(m Moment) {
	s := &w.term.segments
	c := s.compaction
	s.compaction = nil
	if c.shown == 0 { // a former owner began it, so the segments that had ended before are not known here
		s.read, s.quiet = false, 0
	} else {
		s.end(c.Segments, time.UnixMilli(c.VisibleFrom), m.Now+w.o.CompactDelay+w.o.SegmentRetention)
		w.past.compactBytes = min(w.o.CompactBytes, max(w.past.compactBytes, 2*c.size))
	}
	w.metrics.compacted(c.count, m.Now-c.begun)
}

// handle goes on. If the user may not delete, it waits a while before it tries again. Ended segments are not shown, and
// nothing depends on their deletion.
func (e SegmentsSwept) handle(w *Worker, m Moment) {
	s := w.compactionAnswered()
	switch {
	case errors.Is(e.Err, claim.ErrUnauthorized):
		s.sweepFrom = m.Now + refusedRetry
		w.metrics.failed(compactingSegments)
		w.log.Warn("ended segments cannot be deleted and occupy disk space: the MongoDB user has no right to delete them. Compaction continues", "err", e.Err)
	case e.Err != nil:
		w.past.unknownUntil = max(w.past.unknownUntil, m.Now+w.o.WriteGrace)
		w.compactionFailed(m, compactingSegments, e.Err)
	default:
		w.succeeded(&s.retry, MongoDB)
		s.ended = s.ended[1:]
	}
}

// warnOfDoubles warns, once per compaction, that its buckets may be shown although some of its segments have not ended.
func (w *Worker) warnOfDoubles(m Moment) {
	s := &w.term.segments
	warn := func(c *compacting) {
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

// tellUnfinished logs the compaction that the end of the term leaves unfinished.
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
		"if no owner does so before the time twice_from, queries may see the measurements of this compaction twice", args...)
}

// refusals are the series whose buckets MongoDB has refused in a compaction.
type refusals struct {
	metas   []bson.RawValue // type 0 means the series without a meta
	message string          // of the first refusal
}

// add notes that MongoDB refuses the bucket that a write inserts.
func (r *refusals) add(w *bucketer.Write, message string) {
	meta, _ := w.Document.LookupErr(timeseries.FieldMeta) // the zero value if there is none
	if r.metas = append(r.metas, meta); len(r.metas) == 1 {
		r.message = message
	}
}

// first returns the first meta as text.
func (r *refusals) first() string {
	if r.metas[0].Type == 0 {
		return "none"
	}
	return r.metas[0].String()
}

// compactionRefused rolls back a compaction with buckets that MongoDB refuses. Their series are kept out of segments, so that
// new measurements of them become a bucket or a dead letter. Segments with these series are left aside, and all others are
// compacted.
func (w *Worker) compactionRefused(m Moment, c *compacting, refused *refusals) {
	s := &w.term.segments
	for _, meta := range refused.metas {
		w.catalog.KeepOut(meta)
	}
	for i, document := range c.read {
		if holds, err := bucketer.HoldsSeries(w.o.Bucketing.Collection, document, refused.metas); holds || err != nil {
			s.leave(c.Segments[i].ID, m.Now+refusedRetry)
			c.left++
		}
	}
	w.log.Error("MongoDB refuses a bucket of a compaction: correct the index or the validator that refuses it. "+
		"Segments with this series are tried again later, and all others are compacted",
		"compaction", c.ID.String(), "meta", refused.first(), "series", len(refused.metas), "segments", c.left, "retry_in", refusedRetry, "err", refused.message)
	w.metrics.failed(compactingSegments)
	w.succeeded(&s.retry, MongoDB)
	w.rollBack(m, becauseRefused)
}
