package pipeline

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/claim"
)

// staging is what the partition has in segments, as far as the tenure knows.
type staging struct {
	read     bool            // what there was before is known
	waiting  []staged        // to be settled
	ended    []ended         // to be deleted, the first that ended first
	asked    []bson.ObjectID // those that are being read
	settling *settling
	attempt  int32 // of inserts, where others have met documents of their _ids
	retry    backoff
	turn     bool    // it comes before the flush
	since    Instant // when the action under way began
	due      Instant // before that no segment is to be settled; 0: it must be worked out
	// sweepFrom is when deleting is tried again that the user has no right to.
	sweepFrom Instant
}

// staged is a segment that waits to be settled.
type staged struct {
	claim.Segment
	since Instant
}

// ended are segments that are of no use any more once readers are through with them.
type ended struct {
	ids   []bson.ObjectID
	until time.Time // by MongoDB's clock
	due   Instant
}

// maxSettled bounds the segments of one settling: the partition document names them.
const maxSettled = 1000

// noteStaged takes the segments of a flush that is done.
func (w *Worker) noteStaged(m Moment, f *flush) {
	s := &w.tenure.staging
	for i, cut := range f.cut.Writes {
		if r := f.outcomes[i].Result; cut.Segment && (r == bucketer.Applied || r == bucketer.AppliedForget) {
			segment := claim.Segment{ID: cut.ID, TopicID: w.source.TopicID, Low: cut.Low, High: cut.High, Count: cut.Added, Bytes: int64(len(cut.Document))}
			s.waiting, s.due = append(s.waiting, staged{segment, m.Now}), 0
		}
	}
}

// stagingRead takes what former owners have left. It counts as half as old as what is settled.
func (w *Worker) stagingRead(m Moment, e StagingRead) {
	s := w.settlingAnswered()
	if e.Err != nil {
		w.settlingFailed(m, readingSegments, e.Err)
		return
	}
	w.succeeded(&s.retry, MongoDB)
	if e.Staging.Settling != nil {
		shown := s.since + time.Duration(e.Staging.Settling.From-e.Staging.Now)*time.Millisecond
		s.settling = &settling{Settling: *e.Staging.Settling, course: recovering, committed: true, begun: m.Now, shown: shown}
		return // and what there is, is read again
	}
	since := make(map[bson.ObjectID]Instant, len(s.waiting))
	for i := range s.waiting {
		since[s.waiting[i].ID] = s.waiting[i].since
	}
	s.read, s.due, s.waiting, s.ended = true, 0, nil, nil
	now := time.UnixMilli(e.Staging.Now)
	for _, one := range e.Staging.Segments {
		if w.flush != nil && w.flush.isOpen(one.ID) { // nothing is done with it while its write is unknown (E4)
			continue
		}
		if one.Until != 0 {
			until := time.UnixMilli(one.Until)
			s.end([]bson.ObjectID{one.ID}, until, m.Now+until.Sub(now)+w.o.SettleLinger)
			continue
		}
		at, known := since[one.ID]
		if !known {
			at = m.Now - w.o.SettleInterval/2
		}
		s.waiting = append(s.waiting, staged{one, at})
	}
	slices.SortStableFunc(s.waiting, func(a, b staged) int { return cmp.Compare(a.since, b.since) })
}

// end notes segments that have ended, or will.
func (s *staging) end(ids []bson.ObjectID, until time.Time, due Instant) {
	if last := len(s.ended) - 1; last >= 0 && s.ended[last].until.Equal(until) {
		s.ended[last].ids = append(s.ended[last].ids, ids...)
		return
	}
	at := len(s.ended)
	for at > 0 && s.ended[at-1].due > due {
		at--
	}
	s.ended = slices.Insert(s.ended, at, ended{ids, until, due})
}

// toSettle are the segments to be settled now; nil: none. All that have series from the same part of the hashes are settled
// together, so that the buckets get all of a series: when the first of them has waited for the interval, or when they have become
// so many bytes. More than that are settled one after the other, the oldest first.
func (s *staging) toSettle(now Instant, interval time.Duration, bytes int64) []bson.ObjectID {
	if len(s.waiting) == 0 || s.due != 0 && now < s.due {
		return nil
	}
	s.due = s.waiting[0].since + interval
	for _, p := range s.parts() {
		if p.bytes < bytes && now < p.oldest+interval {
			continue
		}
		s.due = 0 // there may be others
		slices.Sort(p.members)
		var ids []bson.ObjectID
		for _, i := range p.members {
			if bytes -= s.waiting[i].Bytes; len(ids) > 0 && (bytes < 0 || len(ids) == maxSettled) {
				break
			}
			ids = append(ids, s.waiting[i].ID)
		}
		return ids
	}
	return nil
}

// part is the segments of one topic that have series from one part of the hashes.
type part struct {
	members []int // of waiting
	topicID [16]byte
	high    int32
	bytes   int64
	oldest  Instant
}

// parts divides what waits so that no segment of one part has hashes of another.
func (s *staging) parts() []part {
	order := make([]int, len(s.waiting))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &s.waiting[i], &s.waiting[j]
		return cmp.Or(bytes.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Low, b.Low))
	})
	var all []part
	for _, i := range order {
		one := &s.waiting[i]
		if last := len(all) - 1; last < 0 || one.TopicID != all[last].topicID || one.Low > all[last].high {
			all = append(all, part{topicID: one.TopicID, high: one.High, oldest: one.since})
		}
		p := &all[len(all)-1]
		p.members = append(p.members, i)
		p.high, p.bytes, p.oldest = max(p.high, one.High), p.bytes+one.Bytes, min(p.oldest, one.since)
	}
	return all
}

// drop takes segments off the list of those that wait.
func (s *staging) drop(gone map[bson.ObjectID]bool) {
	s.waiting = slices.DeleteFunc(s.waiting, func(o staged) bool { return gone[o.ID] })
	s.due = 0
}
