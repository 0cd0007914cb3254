package pipeline

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// segments is what the term knows about the partition's segments.
type segments struct {
	read       bool                      // the segments were read, and no command's outcome is in doubt
	open       []openSegment             // in no compaction yet; the oldest first
	ended      []endedSegments           // to be deleted; the earliest end first
	unfinished []*compacting             // found begun; to be finished or rolled back
	postponed  map[claim.Token]Instant   // roll-backs that the user has no right to, and when to try them again
	left       map[bson.ObjectID]Instant // segments that cannot be compacted, and when to try them again
	compaction *compacting               // under way. Nil means that none is.
	retry      backoff
	turn       bool        // compaction comes before the flush
	since      Instant     // when the action under way began
	asked      Instant     // when an operator's command asked for a compaction of all segments
	due        Instant     // when to look for segments to compact. Zero means that this must be worked out.
	quiet      Instant     // until then a command of a compaction may still be executed
	doubted    *compacting // the compaction of that command. Nil means that no outcome is in doubt.
	resumes    Instant     // no compaction begins before this, because MongoDB has refused one
	sweepFrom  Instant     // when to try deletions again that the user has no right to
}

// openSegment is a segment that waits to be compacted.
type openSegment struct {
	claim.Segment
	since Instant
}

// endedSegments are segments that ended at the same moment. They are deleted once no reader needs them any more.
type endedSegments struct {
	segments []claim.Segment
	until    time.Time // by MongoDB's clock
	due      Instant
}

// maxCompacted bounds the segments of one compaction.
const maxCompacted = 1000

// noteSegments notes the segments that a finished flush has written.
func (w *Worker) noteSegments(m Moment, f *inFlight) {
	s := &w.term.segments
	for i, cut := range f.cut.Writes {
		if r := f.outcomes[i].Result; cut.Segment && (r == bucketer.Applied || r == bucketer.AppliedForget) {
			segment := claim.Segment{
				ID: cut.ID, Meta: timeseries.SegmentMetaOf(cut.ID), TopicID: w.source.TopicID, Min: cut.MinTime, Low: cut.Low, High: cut.High, Count: cut.Added, Bytes: int64(len(cut.Document)),
			}
			s.open, s.due = append(s.open, openSegment{segment, m.Now}), 0
		}
	}
}

// handle takes all present segments. No command of a compaction can be executed any more when they are read, so they tell
// which compactions are unfinished. Segments of former owners are compacted soon. Otherwise a partition that often moves would
// never be compacted.
func (e SegmentsRead) handle(w *Worker, m Moment) {
	s := w.compactionAnswered()
	if e.Err != nil {
		w.compactionFailed(m, readingSegments, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	since := make(map[bson.ObjectID]Instant, len(s.open))
	for i := range s.open {
		since[s.open[i].ID] = s.open[i].since
	}
	s.read, s.due, s.open, s.ended, s.unfinished = true, 0, nil, nil, nil
	begun := map[claim.Token]*compacting{}
	for _, one := range e.Segments.All {
		if one.Frozen() {
			c := begun[one.Compaction]
			if c == nil {
				c = w.foundCompaction(m, &one)
				begun[one.Compaction] = c
				s.unfinished = append(s.unfinished, c)
			}
			c.add(one)
		}
	}
	for _, one := range e.Segments.All {
		if w.flush != nil && w.flush.isOpen(one.ID) { // its write is unknown, so nothing is done with it (E4)
			continue
		}
		c := begun[one.Compaction]
		switch {
		case one.VisibleUntil != 0 && c != nil: // this proves that the compaction's buckets must stay
			c.step, c.VisibleFrom = ending, one.VisibleUntil
			c.twice = max(1, m.Now+time.UnixMilli(one.VisibleUntil).Sub(e.Segments.Now))
		case one.VisibleUntil != 0:
			until := time.UnixMilli(one.VisibleUntil)
			s.end([]claim.Segment{one}, until, m.Now+until.Sub(e.Segments.Now)+w.o.SegmentRetention)
		case c == nil:
			at, known := since[one.ID]
			if !known {
				at = w.foundSince(m.Now)
			}
			s.open = append(s.open, openSegment{one, at})
		}
	}
	slices.SortStableFunc(s.open, func(a, b openSegment) int { return cmp.Compare(a.since, b.since) })
	s.doubted = nil
}

// foundCompaction returns a compaction that has not ended its segments. Nothing proves yet that one has ended, so it is to be
// rolled back. When its buckets are shown is unknown, unless this owner has made them.
func (w *Worker) foundCompaction(m Moment, of *claim.Segment) *compacting {
	c := &compacting{
		Compaction: claim.Compaction{ID: of.Compaction, TopicID: of.TopicID},
		step:       deleting, why: becauseFound, begun: m.Now, oldest: w.foundSince(m.Now), twice: m.Now + foundWait,
	}
	if before := w.term.segments.doubted; before != nil && before.ID == c.ID {
		c.why, c.twice = before.why, before.twice
	}
	if _, hidden := w.term.segments.postponed[c.ID]; hidden { // hidden for good, because the user may not delete its buckets
		c.twice = 0
	}
	return c
}

// foundWait is how long segments wait that were found by a claim or a roll-back. They wait for half of the interval at most.
const foundWait = 15 * time.Second

// foundSince returns the time since which found segments count as waiting.
func (w *Worker) foundSince(now Instant) Instant {
	return now - w.o.CompactInterval + min(w.o.CompactInterval/2, foundWait)
}

// end notes segments that have ended or will end.
func (s *segments) end(all []claim.Segment, until time.Time, due Instant) {
	at := len(s.ended)
	for at > 0 && s.ended[at-1].due > due {
		at--
	}
	if at > 0 && s.ended[at-1].until.Equal(until) {
		s.ended[at-1].segments = append(s.ended[at-1].segments, all...)
		return
	}
	s.ended = slices.Insert(s.ended, at, endedSegments{all, until, due})
}

// status counts the segments that have not ended, and their measurements. It also returns the age of the oldest of these
// segments.
func (s *segments) status(now Instant) (measurements int64, count int, age time.Duration) {
	oldest := now
	if len(s.open) > 0 {
		oldest = s.open[0].since
	}
	for _, c := range append(s.unfinished[:len(s.unfinished):len(s.unfinished)], s.compaction) {
		if c != nil {
			count, oldest = count+len(c.Segments), min(oldest, c.oldest)
		}
	}
	return s.measurements(), count + len(s.open), now - oldest
}

// measurements counts the measurements in segments that have not ended.
func (s *segments) measurements() (n int64) {
	for i := range s.open {
		n += int64(s.open[i].Count)
	}
	if s.compaction != nil {
		n += s.compaction.inSegments()
	}
	for _, c := range s.unfinished {
		n += c.inSegments()
	}
	return n
}

// waiting counts the measurements that compactions can put into buckets now. It leaves out segments that cannot be compacted,
// and those of roll-backs that the user has no right to.
func (s *segments) waiting(now Instant) (n int64) {
	for i := range s.open {
		if now >= s.left[s.open[i].ID] {
			n += int64(s.open[i].Count)
		}
	}
	if s.compaction != nil {
		n += s.compaction.inSegments()
	}
	return n
}

// toCompact returns the segments to be compacted now. Nil means none. All segments that may share series (a part) are compacted
// together, so that each bucket gets all of its series. A part is due when its oldest segment has waited for the interval, or
// when it has the given bytes. A part larger than most is compacted piece by piece, the oldest segments first. Due parts with
// other series join while they fit.
func (s *segments) toCompact(now Instant, interval time.Duration, bytes, most int64) []openSegment {
	if len(s.open) == 0 || s.due != 0 && now < s.due {
		return nil
	}
	s.due = now + interval // later segments are due later
	for _, again := range s.left {
		if again > now {
			s.due = min(s.due, again)
		}
	}
	var taken []openSegment
	for _, p := range s.parts(now) {
		if p.bytes < bytes && now < p.oldest+interval && p.oldest > s.asked {
			s.due = min(s.due, p.oldest+interval)
			continue
		}
		s.due = 0 // other parts may be due as well
		if len(taken) > 0 && (p.topicID != taken[0].TopicID || p.bytes > most || len(taken)+len(p.members) > maxCompacted) {
			break
		}
		slices.Sort(p.members)
		for _, i := range p.members {
			if most -= s.open[i].Bytes; len(taken) > 0 && (most < 0 || len(taken) == maxCompacted) {
				return taken
			}
			taken = append(taken, s.open[i])
		}
	}
	return taken
}

// part is a set of segments of one topic that may share series.
type part struct {
	members []int // indexes in open
	topicID [16]byte
	high    string
	bytes   int64
	oldest  Instant
}

// parts divides the open segments into parts that share no series. It leaves out segments that cannot be compacted.
func (s *segments) parts(now Instant) []part {
	var order []int
	for i := range s.open {
		if now >= s.left[s.open[i].ID] {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &s.open[i], &s.open[j]
		return cmp.Or(bytes.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Low, b.Low))
	})
	var all []part
	for _, i := range order {
		one := &s.open[i]
		if last := len(all) - 1; last < 0 || one.TopicID != all[last].topicID || one.Low > all[last].high {
			all = append(all, part{topicID: one.TopicID, high: one.High, oldest: one.since})
		}
		p := &all[len(all)-1]
		p.members = append(p.members, i)
		p.high, p.bytes, p.oldest = max(p.high, one.High), p.bytes+one.Bytes, min(p.oldest, one.since)
	}
	return all
}

// drop removes segments from the open ones.
func (s *segments) drop(gone []claim.Segment) {
	ids := make(map[bson.ObjectID]bool, len(gone))
	for i := range gone {
		ids[gone[i].ID] = true
	}
	s.open = slices.DeleteFunc(s.open, func(o openSegment) bool { return ids[o.ID] })
	s.due = 0
}

// handle makes all present segments due at once, even those that could not be compacted before. They are read again,
// because an operator may have put some back.
func (CompactionAsked) handle(w *Worker, m Moment) {
	s := &w.term.segments
	s.asked, s.read, s.due, s.left = m.Now, false, 0, nil
}

// leave notes that a segment cannot be compacted before a moment.
func (s *segments) leave(id bson.ObjectID, until Instant) {
	if s.left == nil {
		s.left = map[bson.ObjectID]Instant{}
	}
	s.left[id] = until
}
