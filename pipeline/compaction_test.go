package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
)

// TestCompactionFreezesFirst checks that the steps follow the order of the protocol, and that segments are deleted when no query
// reads them.
func TestCompactionFreezesFirst(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	s.want("written", 1, 0)
	s.pass(s.w.o.CompactInterval)
	s.want("compacted", 0, 0)
	var steps []string
	for _, a := range s.done {
		if change, ok := a.(ChangeSegments); ok {
			steps = append(steps, fmt.Sprint("change ", change.Change))
		} else {
			steps = append(steps, strings.TrimPrefix(fmt.Sprintf("%T", a), "pipeline."))
		}
	}
	want := []string{fmt.Sprint("change ", claim.Freeze), "ReadFrozen", "InsertCompacted", fmt.Sprint("change ", claim.End)}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	s.pass(s.w.o.CompactDelay + s.w.o.SegmentRetention)
	if len(s.segments) != 0 {
		t.Errorf("%d segments are left after the retention", len(s.segments))
	}
}

// TestARollBackHalvesTheNextCompaction checks that compactions become smaller after an insert of unknown outcome, and larger
// after successes.
func TestARollBackHalvesTheNextCompaction(t *testing.T) {
	s := newSegmentStand(t)
	for range 16 {
		s.write(20)
	}
	lost := true
	s.answer = func(a Action) Event {
		if insert, ok := a.(InsertCompacted); ok && lost {
			lost = false
			sent := make([]bucketer.Sent, len(insert.Writes))
			for i := range sent {
				sent[i] = bucketer.Sent{Result: bucketer.Unknown, Err: errDown}
			}
			return CompactedInserted{sent}
		}
		return nil
	}
	s.pass(s.w.o.CompactInterval)
	s.want("in doubt", 16, 16)
	s.done = nil
	for range 100 {
		s.pass(time.Minute)
	}
	s.want("after the doubt", 0, 0)
	var sizes []int
	for _, a := range s.done {
		if change, ok := a.(ChangeSegments); ok && change.Change == claim.Freeze {
			sizes = append(sizes, len(change.Segments))
		}
	}
	if len(sizes) < 2 || sizes[0] != 8 {
		t.Errorf("after a roll-back of 16 segments the compactions take %v of them", sizes)
	}
	if strings.Count(s.log.String(), "compaction rolled back") != 1 || !strings.Contains(s.log.String(), "why="+becauseUnknown) {
		t.Errorf("the log: %s", s.log.String())
	}
	if s.w.past.compactBytes < s.w.o.CompactBytes/1000 {
		t.Errorf("a compaction may have %d bytes", s.w.past.compactBytes)
	}
	before := s.w.past.compactBytes
	for range 16 {
		s.write(20)
	}
	s.pass(s.w.o.CompactInterval)
	if after := s.w.past.compactBytes; after <= before && after < s.w.o.CompactBytes {
		t.Errorf("after one that went well it may have %d bytes, before it %d", after, before)
	}
}

// TestASlowServerRollsBackInTime checks that buckets stored too late are never shown together with a part of the others.
func TestASlowServerRollsBackInTime(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	s.answer = func(a Action) Event {
		if insert, ok := a.(InsertCompacted); ok {
			s.m.Now += s.w.o.CompactDelay
			return CompactedInserted{make([]bucketer.Sent, len(insert.Writes))}
		}
		return nil
	}
	s.pass(s.w.o.CompactInterval)
	s.want("rolled back", 1, 0)
	if !strings.Contains(s.log.String(), "why="+becauseLate) {
		t.Errorf("the log: %s", s.log.String())
	}
	s.answer = nil
	s.pass(foundWait)
	s.want("on a quick server", 0, 0)
}

// TestCompactionGoesOnElsewhereWithoutTheRightToRollBack checks that its segments stay frozen, and the others are compacted.
func TestCompactionGoesOnElsewhereWithoutTheRightToRollBack(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	refused, sent := true, 0
	s.answer = func(a Action) Event {
		switch a := a.(type) {
		case InsertCompacted:
			if sent++; sent == 1 {
				return CompactedInserted{slices.Repeat([]bucketer.Sent{{Result: bucketer.Refused, Message: "no"}}, len(a.Writes))}
			}
		case DeleteCompacted:
			if refused {
				return CompactedDeleted{Err: errNoRight}
			}
		}
		return nil
	}
	s.pass(s.w.o.CompactInterval)
	s.want("that cannot be rolled back", 1, 1)
	if said := s.log.String(); strings.Count(said, "MongoDB refuses a bucket of a compaction") != 1 || !strings.Contains(said, `err=no`) || !strings.Contains(said, `s0`) {
		t.Errorf("the log does not name the refused bucket: %s", said)
	}
	s.write(20)
	s.write(20)
	s.pass(s.w.o.CompactInterval)
	s.want("others", 1, 1)
	s.give(CompactionAsked{}) // all segments are read again
	s.pass(time.Second)
	s.pass(time.Minute)
	if said := s.log.String(); strings.Contains(said, "see measurements twice") {
		t.Errorf("buckets that are hidden for good are called visible: %s", said)
	}
	refused = false
	s.pass(refusedRetry)
	s.want("with the right", 1, 0)
	s.pass(damagedRetry)
	s.want("an hour after it was refused alone", 0, 0)
}

// TestARefusedStepIsNotTriedAllTheTime covers a step that a validator refuses. The log reports it once a minute. A segment that
// is refused by itself is left out.
func TestARefusedStepIsNotTriedAllTheTime(t *testing.T) {
	s := newSegmentStand(t)
	for range 16 {
		s.write(20)
	}
	s.answer = func(a Action) Event {
		if change, ok := a.(ChangeSegments); ok && change.Change == claim.End {
			return SegmentsChanged{Err: errRefused}
		}
		return nil
	}
	s.pass(s.w.o.CompactInterval)
	for range 600 {
		s.pass(time.Second)
	}
	said := s.log.String()
	if n := strings.Count(said, "why="+becauseRefused+" segments="); n < 5 || n > 11 {
		t.Errorf("%d compactions were refused within ten minutes: %s", n, said)
	}
	if strings.Contains(said, becauseUnknown) || strings.Contains(said, "step unknown") {
		t.Errorf("a refusal is called unknown: %s", said)
	}
	s.answer = nil
	s.pass(damagedRetry)
	for range 10 {
		s.pass(time.Minute)
	}
	s.want("accepted again", 0, 0)
}

// TestADamagedSegmentIsNotUrgent checks that a damaged segment is not read again and again, and that the others wait for their
// interval.
func TestADamagedSegmentIsNotUrgent(t *testing.T) {
	s := newSegmentStand(t, func(o *Options) { o.SegmentMeasurements = 40 })
	s.write(20)
	broken, err := bson.Marshal(bson.D{{Key: "_id", Value: s.segments[0].ID}})
	if err != nil {
		t.Fatal(err)
	}
	s.segments[0].Document = broken
	s.write(19)
	s.pass(s.w.o.CompactInterval)
	s.pass(foundWait)
	s.want("the other one", 1, 0)
	s.write(30)
	s.pass(time.Second)
	s.want("before the interval", 2, 0)
	segments := &s.w.term.segments
	if segments.toCompact(s.m.Now, s.w.o.CompactInterval, 1<<30, 1<<30); segments.due <= s.m.Now {
		t.Errorf("at %v the next look is at %v", s.m.Now, segments.due)
	}
	s.pass(s.w.o.CompactInterval)
	s.want("after it", 1, 0)
	if n := strings.Count(s.log.String(), "cannot be compacted"); n != 1 {
		t.Errorf("the log names the damage %d times", n)
	}
}

// TestWarnsOfDoublesOnlyWhereThereMayBeSome expects a warning about a found compaction that cannot be rolled back, and none
// otherwise.
func TestWarnsOfDoublesOnlyWhereThereMayBeSome(t *testing.T) {
	s := found(t, 0)
	s.give(Ticked{})
	s.pass(time.Hour)
	if said := s.log.String(); strings.Contains(said, "twice") {
		t.Errorf("after a roll-back: %s", said)
	}
	s = found(t, 0)
	s.answer = func(a Action) Event {
		if _, ok := a.(DeleteCompacted); ok {
			return CompactedDeleted{Err: errDown}
		}
		return nil
	}
	for range 60 {
		s.pass(time.Second)
	}
	if said := s.log.String(); strings.Count(said, "see measurements twice") != 1 || !strings.Contains(said, "compaction=63000000-0000-") {
		t.Errorf("without a roll-back: %s", said)
	}
}

// TestTooManyMeasurementsInSegmentsAreCompactedFirst checks that they are compacted before the interval is over, and before more
// is written.
func TestTooManyMeasurementsInSegmentsAreCompactedFirst(t *testing.T) {
	s := newSegmentStand(t, func(o *Options) { o.SegmentMeasurements = 100 })
	for range 4 {
		s.write(20)
	}
	s.want("below the bound", 4, 0)
	s.write(20)
	s.pass(time.Second)
	s.want("at the bound", 0, 0)

	most := int64(0)
	for range 40 {
		s.write(30)
		status := s.w.Status(s.m.Now)
		most = max(most, status.InSegments)
	}
	if most > 2*s.w.o.SegmentMeasurements+30 {
		t.Errorf("up to %d measurements were in segments", most)
	}
}

// TestAnAskedCompactionDoesNotWaitForTheInterval also checks that it takes all present segments.
func TestAnAskedCompactionDoesNotWaitForTheInterval(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	s.write(20)
	s.give(CompactionAsked{})
	s.pass(time.Second)
	s.want("asked for", 0, 0)
	s.write(20)
	s.pass(time.Second)
	s.want("later ones", 1, 0)
	if status := s.w.Status(s.m.Now); status.OpenSegments != 1 || status.InSegments != 20 || status.SegmentAge != time.Second {
		t.Errorf("the status: %d segments, %d measurements, %v old", status.OpenSegments, status.InSegments, status.SegmentAge)
	}
}

// TestAnAskedCompactionTakesSegmentsThatTheWorkerDoesNotKnow checks this because the command that asked waits for them too.
func TestAnAskedCompactionTakesSegmentsThatTheWorkerDoesNotKnow(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	s.w.term.segments.open = nil
	s.pass(time.Second)
	s.want("not known", 1, 0)
	s.give(CompactionAsked{})
	s.pass(time.Second)
	s.want("asked for", 0, 0)
}

// found returns a stand whose database has a compaction of a former owner with two segments. ended of them have ended.
func found(t *testing.T, ended int) *segmentStand {
	t.Helper()
	s := newSegmentStand(t)
	s.write(20)
	s.write(20)
	for i := range s.segments {
		if s.segments[i].Compaction = (claim.Token{99}); i < ended {
			s.segments[i].VisibleUntil = s.now().Add(s.w.o.CompactDelay).UnixMilli()
		}
	}
	s.buckets[claim.Token{99}] = 1
	s.w.term.segments = segments{} // as after a claim
	return s
}

// TestAFoundCompactionIsFinishedOrRolledBackAtOnce checks that nothing waits, because the claim has waited for the former owner's
// commands.
func TestAFoundCompactionIsFinishedOrRolledBackAtOnce(t *testing.T) {
	s := found(t, 0)
	s.give(Ticked{})
	s.want("nothing has ended", 2, 0)
	if len(s.buckets) != 0 || !strings.Contains(s.log.String(), "why="+becauseFound) {
		t.Errorf("buckets %v; log %s", s.buckets, s.log.String())
	}
	s = found(t, 1)
	s.give(Ticked{})
	s.want("one has ended", 0, 0)
	if s.segments[0].VisibleUntil != s.segments[1].VisibleUntil || len(s.buckets) != 1 {
		t.Errorf("the ends are %d and %d; buckets %v", s.segments[0].VisibleUntil, s.segments[1].VisibleUntil, s.buckets)
	}
}

// TestRevocationsDoNotStopWhatAFormerOwnerLeft checks that a found unfinished compaction is finished before the partition is
// released.
func TestRevocationsDoNotStopWhatAFormerOwnerLeft(t *testing.T) {
	s := found(t, 0)
	for i := range s.segments { // two compactions, one of which runs when the partition is revoked
		s.segments[i].Compaction = claim.Token{90 + byte(i)}
	}
	s.answer = func(a Action) Event {
		if _, ok := a.(DeleteCompacted); ok && !s.w.term.revoked {
			s.w.Handle(s.m, Revoked{})
		}
		return nil
	}
	s.give(Ticked{})
	s.give(Fetched{Err: errDown})
	s.want("revoked", 2, 0)
	if !s.over {
		t.Errorf("the partition is not handed over; log %s", s.log.String())
	}
}

// TestPartitionsThatMoveAllTheTimeAreCompacted gives each owner the partition for less than the interval.
func TestPartitionsThatMoveAllTheTimeAreCompacted(t *testing.T) {
	s := newSegmentStand(t)
	most := 0
	for range 60 {
		s.w.term.segments = segments{} // another owner, which reads the present segments
		for range 20 {
			s.write(20)
			s.pass(time.Second)
		}
		open, _ := s.open()
		most = max(most, open)
	}
	if most > 40 {
		t.Errorf("up to %d segments were open", most)
	}
}

// TestShutdownFinishesTheCompactionUnderWay covers a shutdown at every step. The compaction ends before the partition is
// released.
func TestShutdownFinishesTheCompactionUnderWay(t *testing.T) {
	for step := range 4 {
		s := newSegmentStand(t)
		s.write(20)
		n := 0
		s.answer = func(a Action) Event {
			switch a.(type) {
			case ChangeSegments, ReadFrozen, InsertCompacted:
				if n++; n == step+1 {
					s.w.Handle(s.m, Revoked{Shutdown: true})
				}
			}
			return nil
		}
		s.pass(s.w.o.CompactInterval)
		s.give(Fetched{Err: errDown}) // the fetch is cancelled
		if open, frozen := s.open(); frozen != 0 || !s.over {
			t.Errorf("step %d: %d open, %d frozen, handed over: %v; log %s", step, open, frozen, s.over, s.log.String())
		}
		if strings.Contains(s.log.String(), "unfinished") {
			t.Errorf("step %d: %s", step, s.log.String())
		}
	}
}

// TestAShutdownThatLeavesACompactionSaysWhatItMeans covers a shutdown whose time is over before MongoDB answers.
func TestAShutdownThatLeavesACompactionSaysWhatItMeans(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	var stuck []Action
	s.m.Now += s.w.o.CompactInterval
	for queue := s.w.Handle(s.m, Ticked{}); len(queue) > 0; queue = queue[1:] {
		if change, ok := queue[0].(ChangeSegments); ok && change.Change == claim.End {
			stuck = append(stuck, queue[0])
			continue
		}
		if e := s.reply(queue[0]); e != nil {
			queue = append(queue, s.w.Handle(s.m, e)...)
		}
	}
	if len(stuck) != 1 {
		t.Fatalf("%d ends are on their way", len(stuck))
	}
	s.w.Handle(s.m, Revoked{Shutdown: true})
	s.w.Handle(s.m, Abandoned{})
	if text := s.log.String(); !strings.Contains(text, "measurements=20") || !strings.Contains(text, "twice_from=") {
		t.Errorf("the log: %s", text)
	}
}

// TestDoublesAreToldOnce checks that a compaction that does not end is reported when its buckets are shown.
func TestDoublesAreToldOnce(t *testing.T) {
	s := newSegmentStand(t)
	s.write(20)
	down := true
	s.answer = func(a Action) Event {
		switch a := a.(type) {
		case ChangeSegments:
			if down && a.Change == claim.End {
				return SegmentsChanged{Err: errDown}
			}
		case ReadSegments:
			if down {
				return SegmentsRead{Err: errDown}
			}
		}
		return nil
	}
	s.pass(s.w.o.CompactInterval)
	const told = "queries may see measurements twice"
	if strings.Contains(s.log.String(), told) {
		t.Errorf("told too early: %s", s.log.String())
	}
	for range 5 {
		s.pass(s.w.o.CompactDelay)
	}
	if n := strings.Count(s.log.String(), told); n != 1 {
		t.Errorf("told %d times: %s", n, s.log.String())
	}
	down = false
	for range 5 {
		s.pass(s.w.o.CompactInterval)
	}
	s.want("with a server", 0, 0)
}
