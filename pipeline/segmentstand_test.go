package pipeline

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// segmentStand is a worker with a database of segments that answers the worker's requests.
type segmentStand struct {
	t        *testing.T
	w        *Worker
	m        Moment
	log      strings.Builder
	segments []claim.Segment
	buckets  map[claim.Token]int // number of buckets of each compaction, whether shown or not
	done     []Action            // the answered actions about segments
	offset   int64
	tokens   byte
	// answer is tried first. Nil means the default answer.
	answer func(Action) Event
	over   bool // the partition was handed over
}

// segmentsEpoch is the database's time at the instant zero.
var segmentsEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newSegmentStand(t *testing.T, changes ...func(*Options)) *segmentStand {
	t.Helper()
	s := &segmentStand{t: t, buckets: map[claim.Token]int{}}
	changes = append([]func(*Options){withSegments, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&s.log, nil))
		o.Bucketing.Limits = timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}
		o.NewToken = func() claim.Token { s.tokens++; return claim.Token{s.tokens} }
	}}, changes...)
	s.w, s.m = newTestWorker(t, changes...)
	s.give(SegmentsRead{Segments: claim.Segments{Now: s.now()}})
	return s
}

func (s *segmentStand) now() time.Time { return segmentsEpoch.Add(s.m.Now) }

// give hands an event to the worker, and answers all actions that follow.
func (s *segmentStand) give(e Event) {
	s.t.Helper()
	queue := s.w.Handle(s.m, e)
	for steps := 0; len(queue) > 0; steps++ {
		if steps > 10_000 {
			s.t.Fatalf("the worker does not come to rest: %#v", queue[0])
		}
		a := queue[0]
		queue = queue[1:]
		if answer := s.reply(a); answer != nil {
			queue = append(queue, s.w.Handle(s.m, answer)...)
		}
	}
}

// reply returns the answer to an action. Nil means no answer.
func (s *segmentStand) reply(a Action) Event {
	if s.answer != nil {
		if e := s.answer(a); e != nil {
			s.done = append(s.done, a)
			return e
		}
	}
	switch a := a.(type) {
	case SendWrites:
		return WritesSent{s.store(a.Writes)}
	case FindBuckets:
		answers := make([]bucketer.Answer, len(a.Lookups))
		for i := range a.Lookups {
			answers[i].Lookup = a.Lookups[i]
		}
		return BucketsFound{Answers: answers}
	case CommitNow:
		c, _ := s.w.Want()
		return Committed{Offset: c.Offset, SentAt: s.m.Now}
	case SendRelease:
		return Released{}
	case HandedOver:
		s.over = true
		return nil
	}
	e := s.replySegments(a)
	if e != nil {
		s.done = append(s.done, a)
	}
	return e
}

func (s *segmentStand) replySegments(a Action) Event {
	switch a := a.(type) {
	case ReadSegments:
		return SegmentsRead{Segments: claim.Segments{All: slices.Clone(s.segments), Now: s.now()}}
	case ReadFrozen:
		frozen := claim.Segments{Now: s.now()}
		for _, one := range s.segments {
			if one.Compaction == a.Compaction.ID {
				frozen.All = append(frozen.All, one)
			}
		}
		return FrozenRead{Segments: frozen}
	case ChangeSegments:
		s.change(a)
		return SegmentsChanged{}
	case InsertCompacted:
		c := s.w.term.segments.compaction
		s.buckets[c.ID] += len(a.Writes)
		return CompactedInserted{make([]bucketer.Sent, len(a.Writes))}
	case DeleteCompacted:
		delete(s.buckets, a.Compaction.ID)
		return CompactedDeleted{}
	case SweepSegments:
		s.segments = slices.DeleteFunc(s.segments, func(one claim.Segment) bool {
			return slices.ContainsFunc(a.Segments, func(gone claim.Segment) bool { return gone.ID == one.ID })
		})
		return SegmentsSwept{}
	}
	return nil
}

// change executes the change of an action.
func (s *segmentStand) change(a ChangeSegments) {
	for i := range s.segments {
		one := &s.segments[i]
		if !slices.ContainsFunc(a.Segments, func(c claim.Segment) bool { return c.ID == one.ID }) {
			continue
		}
		switch ours := one.Compaction == a.Compaction.ID; {
		case a.Change == claim.Freeze && one.Compaction == claim.Token{}:
			one.Compaction = a.Compaction.ID
		case a.Change == claim.End && ours && one.VisibleUntil == 0:
			one.VisibleUntil = a.Compaction.VisibleFrom
		case a.Change == claim.Unfreeze && ours && one.VisibleUntil == 0:
			one.Compaction = claim.Token{}
		}
	}
}

// store stores the segments among the writes.
func (s *segmentStand) store(writes []*bucketer.Write) []bucketer.Sent {
	for _, w := range writes {
		if w.Segment {
			s.segments = append(s.segments, claim.Segment{
				ID: w.ID, TopicID: thisTopic, Min: w.MinTime, Low: w.Low, High: w.High, Count: w.Added, Bytes: int64(len(w.Document)), Document: slices.Clone(w.Document),
			})
		}
	}
	return make([]bucketer.Sent, len(writes))
}

// write hands the worker measurements of series series, and flushes them.
func (s *segmentStand) write(series int) {
	s.t.Helper()
	var records []record.Record
	for i := range series {
		records = append(records, recordOf(s.offset, fmt.Sprintf(`{"time":1767000000000,"meta":"s%d","x":1}`, i)))
		s.offset++
	}
	s.give(Fetched{Batch: record.Batch{Records: records, Next: s.offset, End: s.offset}})
	s.pass(s.w.o.FlushInterval)
}

// pass advances the time.
func (s *segmentStand) pass(d time.Duration) {
	s.t.Helper()
	s.m.Now += d
	s.give(Ticked{})
}

// open returns the number of segments that have not ended, and of frozen segments.
func (s *segmentStand) open() (open, frozen int) {
	for i := range s.segments {
		if s.segments[i].VisibleUntil == 0 {
			open++
		}
		if s.segments[i].Frozen() {
			frozen++
		}
	}
	return open, frozen
}

// want checks the numbers of segments that have not ended and of frozen segments.
func (s *segmentStand) want(when string, open, frozen int) {
	s.t.Helper()
	if o, f := s.open(); o != open || f != frozen {
		s.t.Fatalf("%s: %d segments have not ended, and %d are frozen; want %d and %d; done: %T; log: %s", when, o, f, open, frozen, s.done, s.log.String())
	}
}
