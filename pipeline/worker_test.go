package pipeline

import (
	"errors"
	"slices"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

var errDown = errors.New("connection refused")

// absent fails if one of the actions has the type.
func absent[A Action](t *testing.T, actions []Action) {
	t.Helper()
	if i := slices.IndexFunc(actions, func(a Action) bool { _, ok := a.(A); return ok }); i >= 0 {
		t.Fatalf("%T came too early", actions[i])
	}
}

// flushing returns a worker whose only measurement, at offset 0, has just been sent.
func flushing(t *testing.T, changes ...func(*Options)) (*Worker, Moment) {
	t.Helper()
	w, m := newTestWorker(t, changes...)
	absent[SendWrites](t, w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 1}}))
	m.Now += w.o.FlushInterval
	if writes := expect[SendWrites](t, w.Handle(m, Ticked{})).Writes; len(writes) != 1 || writes[0].Kind != bucketer.Insert {
		t.Fatalf("sent %+v", writes)
	}
	return w, m
}

func wants(t *testing.T, w *Worker, offset int64) {
	t.Helper()
	if c, ok := w.Want(); !ok || c.Offset != offset {
		t.Fatalf("wants to commit %+v, %v, want offset %d", c, ok, offset)
	}
}

func TestCommitWaitsForTheWrite(t *testing.T) {
	w, m := flushing(t)
	wants(t, w, 0)
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	wants(t, w, 1)
}

func TestUnknownWriteIsReadBackAndSentAgainUnchanged(t *testing.T) {
	w, m := flushing(t)
	absent[SendWrites](t, w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}}))
	m.Now += longestDelay
	first := expect[ResolveWrites](t, w.Handle(m, Ticked{})).Writes[0]
	wants(t, w, 0)
	again := expect[SendWrites](t, w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}}))
	if again.Writes[0] != first {
		t.Fatal("another write was sent")
	}
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
	m.Now += longestDelay
	expect[ResolveWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.Applied}})
	wants(t, w, 1)
}

func TestConflictWaitsForTheGraceBeforeItAsks(t *testing.T) {
	w, m := flushing(t)
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
	sent := m.Now
	m.Now += longestDelay
	expect[ResolveWrites](t, w.Handle(m, Ticked{}))
	absent[AskPositions](t, w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.Conflicted}}))
	m.Now = sent + w.o.WriteGrace
	absent[AskPositions](t, w.Handle(m, Ticked{}))
	m.Now++
	expect[AskPositions](t, w.Handle(m, Ticked{}))
	// None of it is stored, so it goes into another bucket.
	actions := w.Handle(m, PositionsAsked{})
	m.Now += w.o.FlushInterval
	sentAgain := expect[SendWrites](t, append(actions, w.Handle(m, Ticked{})...))
	if sentAgain.Writes[0].Added != 1 {
		t.Fatalf("sent %+v", sentAgain.Writes[0])
	}
	wants(t, w, 0)
}

// TestConflictForgetsTheOtherBucketsOfItsSeries checks this because a conflict means that another writer changes the series.
func TestConflictForgetsTheOtherBucketsOfItsSeries(t *testing.T) {
	w, m := withStoredBucket(t) // at hour 0, and open
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{hourly(1, 3), otherSeries(2)}, Next: 3, End: 3}})
	m.Now += w.o.FlushInterval
	sent := expect[SendWrites](t, w.Handle(m, Ticked{})).Writes
	if len(sent) != 2 {
		t.Fatalf("%d writes", len(sent))
	}
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{hourly(3, 3), otherSeries(4)}, Next: 5, End: 5}}) // for the same buckets
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}, {Result: bucketer.Applied}}})
	m.Now += longestDelay
	expect[ResolveWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.Conflicted}})
	m.Now += w.o.WriteGrace
	expect[AskPositions](t, w.Handle(m, Ticked{}))
	actions := w.Handle(m, PositionsAsked{Stored: []timeseries.Position{{Offset: 1}}})
	if cleared := w.Status(m.Now).Buckets.BucketsCleared; cleared != 1 { // the bucket that offset 3 opened instead
		t.Errorf("%d buckets were cleared, want that of the series with the conflict", cleared)
	}
	m.Now += w.o.FlushInterval
	kinds := map[bucketer.Kind]int{}
	for _, write := range expect[SendWrites](t, append(actions, w.Handle(m, Ticked{})...)).Writes {
		kinds[write.Kind]++
	}
	if kinds[bucketer.Insert] != 1 || kinds[bucketer.Update] != 1 {
		t.Errorf("then the writes were %v, want a new bucket for the one series and an update of the other's", kinds)
	}
}

func otherSeries(offset int64) record.Record {
	return recordOf(offset, `{"time":1767000000000,"meta":"b","x":1}`)
}

func TestNothingIsSentWithoutTheLease(t *testing.T) {
	w, m := newTestWorker(t)
	m.Held = false
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 1}})
	m.Now += w.o.FlushInterval
	absent[SendWrites](t, w.Handle(m, Ticked{}))
	m.Held = true
	expect[SendWrites](t, w.Handle(m, Ticked{}))
}

func TestHandOverFlushesCommitsAndReleasesInThisOrder(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good), recordOf(1, "{")}, Next: 2, End: 2}})
	actions := w.Handle(m, Revoked{}) // the following fetch is still running
	expect[SendWrites](t, actions)
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	wants(t, w, 1) // the letter is not acknowledged
	expect[CommitNow](t, w.Handle(m, DeadLettersProduced{}))
	wants(t, w, 2)
	absent[SendRelease](t, w.Handle(m, Committed{Offset: 1, SentAt: m.Now})) // the answer is for an older commit
	expect[SendRelease](t, w.Handle(m, Committed{Offset: 2, SentAt: m.Now}))
	expect[HandedOver](t, w.Handle(m, Released{}))
	if _, ok := w.Want(); ok {
		t.Fatal("wants to commit after it handed the partition over")
	}
}

func TestCatalogIsDroppedWhenSomebodyWasInBetween(t *testing.T) {
	for name, test := range map[string]struct {
		claim     claim.Token
		committed int64
		warm      bool
	}{
		"nobody was":         {claim.Token{7}, 1, true},
		"another claim":      {claim.Token{9}, 1, false},
		"the offset was set": {claim.Token{7}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, m := flushing(t)
			w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
			w.Handle(m, Committed{Offset: 1, SentAt: m.Now})
			w.Handle(m, Fetched{Batch: record.Batch{Next: 1, End: 1}})
			w.Handle(m, Abandoned{})
			w.Handle(m, Assigned{TopicID: thisTopic})
			w.Handle(m, ClaimRead{
				Committed: claim.Committed{Offset: test.committed},
				Seen:      claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: test.claim, Released: true},
				Bounds:    record.Bounds{End: 1000},
			})
			w.Handle(m, Committed{Offset: test.committed, SentAt: m.Now})
			actions := w.Handle(m, Claimed{Won: true})
			if test.warm {
				if at := expect[Fetch](t, actions).Offset; at != 1 {
					t.Fatalf("went on at %d", at)
				}
				return
			}
			expect[LoadStoredPositions](t, actions)
		})
	}
}

func TestOwnUnknownWritesOutliveTheirCatalog(t *testing.T) {
	w, m := flushing(t)
	m.Now += time.Minute
	w.Handle(m, Abandoned{}) // its write was sent and not answered
	w.Handle(m, Assigned{TopicID: thisTopic, Consecutive: true})
	mine := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{7}}
	absent[CommitNow](t, w.Handle(m, ClaimRead{Seen: mine, Bounds: record.Bounds{End: 1000}}))
	m.Now += w.o.WriteGrace - 1
	absent[CommitNow](t, w.Handle(m, Ticked{}))
	m.Now++
	expect[CommitNow](t, w.Handle(m, Ticked{}))
}

func TestAnotherOwnersClaimIsWaitedFor(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, Abandoned{})
	w.Handle(m, Assigned{TopicID: thisTopic})
	theirs := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{9}, Wait: 5 * w.o.Wait, Lease: 5*w.o.Wait - time.Second}
	read := ClaimRead{Seen: theirs, Bounds: record.Bounds{End: 1000}}
	absent[CommitNow](t, w.Handle(m, read)) // its owner may still hand over, and commit
	began := m.Now
	m.Now += watchInterval
	expect[WatchClaim](t, w.Handle(m, Ticked{}))
	absent[ReadClaim](t, w.Handle(m, ClaimWatched{Seen: theirs}))
	m.Now = began + theirs.Lease
	expect[ReadClaim](t, w.Handle(m, Ticked{}))
	expect[CommitNow](t, w.Handle(m, read)) // the commit proves the sight, see observedClaim
	absent[NoteWaited](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	m.Renewed = m.Now // by the next commit
	expect[NoteWaited](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	absent[SendClaim](t, w.Handle(m, WaitedNoted{}))
	m.Now = began + theirs.Wait - 1
	absent[CommitNow](t, w.Handle(m, Ticked{}))
	m.Now++
	expect[CommitNow](t, w.Handle(m, Ticked{}))
	absent[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now - 1})) // sent before the wait was over
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
}

// seeingOtherGroup returns a worker that has just read a claim of another group.
func seeingOtherGroup(t *testing.T) (*Worker, Moment, ClaimRead) {
	t.Helper()
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, Abandoned{})
	w.Handle(m, Assigned{TopicID: thisTopic})
	others := ClaimRead{Seen: claim.Document{Found: true, Group: "another", TopicID: thisTopic}, Bounds: record.Bounds{End: 1000}}
	absent[ReadClaim](t, w.Handle(m, others)) // not again at once
	return w, m, others
}

func TestOtherGroupIsRefused(t *testing.T) {
	w, m, others := seeingOtherGroup(t)
	for began := m.Now; w.Status(m.Now).Stopped == nil; {
		if m.Now > began+otherGroupPatience+2*longestDelay {
			t.Fatal("the partition is not stopped")
		}
		m.Now += longestDelay
		expect[ReadClaim](t, w.Handle(m, Ticked{}))
		absent[CommitNow](t, w.Handle(m, others))
	}
	if reason := w.Status(m.Now).Stopped.Reason; reason != "other_group" {
		t.Fatalf("stopped for %s", reason)
	}
	expect[HandedOver](t, w.Handle(m, Revoked{}))
}

func TestStaleClaimOfAnotherGroupIsReadAgain(t *testing.T) {
	w, m, _ := seeingOtherGroup(t)
	m.Now += longestDelay
	expect[ReadClaim](t, w.Handle(m, Ticked{}))
	takenOver := ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{8}, Released: true}, Bounds: record.Bounds{End: 1000}}
	expect[CommitNow](t, w.Handle(m, takenOver))
	if s := w.Status(m.Now); s.Stopped != nil {
		t.Fatalf("stopped: %v", s.Stopped)
	}
}

func TestReplayedMeasurementsAreSkipped(t *testing.T) {
	w, m := newIdleWorker(t)
	claimWith(t, w, m, Assigned{TopicID: thisTopic}, timeseries.Position{Offset: 0})
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good), recordOf(1, good)}, Next: 2, End: 2}})
	if pending := w.Status(m.Now).Pending; pending != 1 {
		t.Fatalf("%d measurements are pending, want 1", pending)
	}
	if w.Status(m.Now).StoredBytes > 0 {
		t.Fatal("D is kept though the position has passed it")
	}
	wants(t, w, 1)
}

func TestRefusedMeasurementBecomesALetterWithItsRecord(t *testing.T) {
	w, m := flushing(t)
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Refused, Code: 121, Message: "Document failed validation"}}})
	actions := w.Handle(m, Fetched{Batch: record.Batch{Next: 1, End: 1}})
	if at := expect[ReadRecord](t, actions).Offset; at != 0 {
		t.Fatalf("read offset %d again", at)
	}
	wants(t, w, 0)
	letters := expect[ProduceDeadLetters](t, w.Handle(m, RecordRead{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}}})).DeadLetters
	if l := letters[0]; l.Reason != string(measurement.RefusedByDatabase) || string(l.Value) != good || l.Part != record.WholeRecord {
		t.Fatalf("letter is %+v", l)
	}
	w.Handle(m, DeadLettersProduced{})
	wants(t, w, 1)
}

func TestLetterSaysThatRetentionTookItsRecord(t *testing.T) {
	w, m := flushing(t)
	refuse(t, w, m)
	m.Now += longestDelay
	letters := expect[ProduceDeadLetters](t, w.Handle(m, RecordRead{Err: record.ErrOutOfRange})).DeadLetters
	if l := letters[0]; l.Cut == "" || l.Value != nil || l.Reason != string(measurement.RefusedByDatabase) {
		t.Fatalf("letter is %+v", l)
	}
}

// TestAnAnswerWithNothingDoesNotLoseARefusedRecord covers a new leader that does not yet know that the record is replicated, and
// returns nothing.
func TestAnAnswerWithNothingDoesNotLoseARefusedRecord(t *testing.T) {
	w, m := flushing(t)
	refuse(t, w, m)
	m.Now += longestDelay
	absent[ProduceDeadLetters](t, w.Handle(m, RecordRead{Batch: record.Batch{Next: 0, End: 1}}))
	wants(t, w, 0)
	m.Now += longestDelay
	if at := expect[ReadRecord](t, w.Handle(m, Ticked{})).Offset; at != 0 {
		t.Fatalf("read offset %d again", at)
	}
	letters := expect[ProduceDeadLetters](t, w.Handle(m, RecordRead{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1}})).DeadLetters
	if l := letters[0]; string(l.Value) != good || l.Cut != "" {
		t.Fatalf("letter is %+v", l)
	}
}

func TestTopicCreatedAgainStartsAtItsBeginning(t *testing.T) {
	w, m := newTestWorker(t)
	expect[AskTopic](t, after(w, m, Fetched{Err: record.ErrTopicGone}))
	m.Now += longestDelay
	absent[Open](t, w.Handle(m, TopicAsked{})) // gone: wait
	expect[AskTopic](t, after(w, m, Ticked{}))
	m.Now += 2 * longestDelay
	if s := expect[Open](t, w.Handle(m, TopicAsked{TopicID: otherTopic})).Source; s.TopicID != otherTopic {
		t.Fatalf("opened %+v", s)
	}
	former := claim.Provenance{ClusterID: "cluster", TopicID: thisTopic, Namespace: "db.events"}.String()
	if c, ok := w.Want(); ok && c.Metadata != former {
		t.Fatalf("wants to commit an offset of the old topic as one of the new: %+v", c)
	}
	expect[CommitNow](t, w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{7}}, Bounds: record.Bounds{First: 3, End: 9}}))
	wants(t, w, 3)
}

// TestTopicCreatedAgainBeforeItWasClaimed checks that only the committed offset shows that the group had the topic before.
// KAFKA_START applies to topics that it never had.
func TestTopicCreatedAgainBeforeItWasClaimed(t *testing.T) {
	for committed, want := range map[int64]int64{7: 3, -1: 9} {
		w, m := newIdleWorker(t)
		expect[ReadClaim](t, w.Handle(m, Assigned{TopicID: thisTopic}))
		found := claim.Committed{Offset: committed} // an operator's reset, or no commit
		expect[AskTopic](t, after(w, m, ClaimRead{Committed: found, Of: Kafka, Err: record.ErrTopicGone}))
		m.Now += 2 * longestDelay
		expect[ReadClaim](t, w.Handle(m, TopicAsked{TopicID: otherTopic}))
		expect[CommitNow](t, w.Handle(m, ClaimRead{Committed: found, FirstPartitions: 4, Bounds: record.Bounds{First: 3, End: 9, Start: 9}}))
		wants(t, w, want)
	}
}

// after handles an event, and then advances the time by the longest delay.
func after(w *Worker, m Moment, e Event) []Action {
	actions := w.Handle(m, e)
	m.Now += longestDelay
	return append(actions, w.Handle(m, Ticked{})...)
}

func TestPositionBehindTheLogGoesOnAtItsStart(t *testing.T) {
	w, m := newTestWorker(t)
	expect[AskBounds](t, after(w, m, Fetched{Err: record.ErrOutOfRange}))
	m.Now += longestDelay
	if at := expect[Fetch](t, w.Handle(m, BoundsAsked{Bounds: record.Bounds{First: 40, End: 50}})).Offset; at != 40 {
		t.Fatalf("fetches from %d", at)
	}
}

func TestPositionBeyondTheLogStopsThePartition(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Next: 90, End: 90}})
	expect[AskBounds](t, after(w, m, Fetched{Err: record.ErrOutOfRange}))
	w.Handle(m, BoundsAsked{Bounds: record.Bounds{First: 40, End: 50}})
	if s := w.Status(m.Now); s.Stopped == nil || s.Stopped.Reason != "offset_out_of_range" {
		t.Fatalf("stopped: %v", s.Stopped)
	}
}

func TestFetchPausesWhileTooMuchWaits(t *testing.T) {
	w, m := flushing(t, func(o *Options) { o.FlushCount = 2 })
	absent[Fetch](t, w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(1, good), recordOf(2, good)}, Next: 3, End: 9}}))
	if w.Status(m.Now).Paused == "" {
		t.Fatal("the status does not say that fetching pauses")
	}
	expect[Fetch](t, w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}}))
}

func TestMemoryTargetFlushesAndPauses(t *testing.T) {
	w, m := newTestWorker(t)
	m.Target = 1
	actions := w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 1, End: 9}})
	expect[SendWrites](t, actions)
	absent[Fetch](t, actions)
}

func TestUnansweredAttemptForbidsTheRelease(t *testing.T) {
	w, m := flushing(t)
	w.Handle(m, Fetched{Batch: record.Batch{Next: 1, End: 1}})
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
	m.Now += longestDelay
	w.Handle(m, Ticked{})
	w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.NotApplied}})
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}}) // the same bytes, while the first write may still arrive
	w.Handle(m, Revoked{})
	expect[CommitNow](t, w.Handle(m, Fetched{Err: errDown}))
	actions := w.Handle(m, Committed{Offset: 1, SentAt: m.Now})
	absent[SendRelease](t, actions)
	expect[HandedOver](t, actions)
}

// TestHandOverSendsNothingOfASeriesThatBackedOff covers a series with repeated conflicts, which backs off so that a hand-over
// does not wait. If the back-off ends meanwhile, no write of the series may be sent, because the release may be in flight (E7).
func TestHandOverSendsNothingOfASeriesThatBackedOff(t *testing.T) {
	w, m := flushing(t)
	conflict := func() {
		t.Helper()
		w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Unknown, Err: errDown}}})
		m.Now += longestDelay
		expect[ResolveWrites](t, w.Handle(m, Ticked{}))
		w.Handle(m, WritesResolved{Found: []bucketer.Result{bucketer.Conflicted}})
		m.Now += w.o.WriteGrace
		expect[AskPositions](t, w.Handle(m, Ticked{}))
	}
	conflict()
	actions := w.Handle(m, PositionsAsked{})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, append(actions, w.Handle(m, Ticked{})...))
	conflict()
	w.Handle(m, PositionsAsked{})
	wants(t, w, 0)

	absent[SendWrites](t, w.Handle(m, Revoked{}))
	expect[SendRelease](t, w.Handle(m, Fetched{Err: errDown}))
	m.Now += 2 * time.Minute // longer than any series backs off
	absent[SendWrites](t, w.Handle(m, Ticked{}))
	expect[HandedOver](t, w.Handle(m, Released{}))
	if w.Bytes() > 0 {
		t.Error("a catalog outlived the hand-over in which a measurement waits")
	}
}
