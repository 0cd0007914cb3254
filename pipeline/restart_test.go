package pipeline

import (
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

func TestRestartAtTheLogsEndLosesNothingThatWaits(t *testing.T) {
	w, m := newTestWorker(t, func(o *Options) { o.OutOfRange = claim.LatestOutOfRange })
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, good)}, Next: 5, End: 5}})
	w.Handle(m, Fetched{Err: record.ErrOutOfRange})
	m.Now += longestDelay / 2
	expect[AskBounds](t, w.Handle(m, Ticked{}))
	expect[Open](t, w.Handle(m, BoundsAsked{Bounds: record.Bounds{End: 3}}))
	expect[CommitNow](t, w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", Claim: claim.Token{7}}, Bounds: record.Bounds{End: 3}}))
	wants(t, w, 0)
}

func TestLeaseIsRenewedWhileARestartWaitsForItsFlush(t *testing.T) {
	w, m := flushing(t)
	w.Handle(m, Fetched{Err: record.ErrTopicGone})
	m.Now += longestDelay
	expect[AskTopic](t, w.Handle(m, Ticked{}))
	w.Handle(m, TopicAsked{TopicID: [16]byte{9}})
	wants(t, w, 0)
}

// TestNothingIsReadOrCommittedAnewBeforeARestart checks this because later records may belong to another log or owner. The
// restart goes back to the offset that was committed when it was requested.
func TestNothingIsReadOrCommittedAnewBeforeARestart(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(5, good)}, Next: 6, End: 6}})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	wants(t, w, 5)
	expect[AskTopic](t, after(w, m, Fetched{Err: record.ErrTopicGone}))
	absent[Fetch](t, after(w, m, TopicAsked{TopicID: otherTopic}))
	wants(t, w, 0)
}

func TestReleaseThatFindsAnotherClaimEndsTheTerm(t *testing.T) {
	w, m := newTestWorker(t)
	w.Handle(m, Revoked{})
	expect[SendRelease](t, w.Handle(m, Fetched{Batch: record.Batch{Next: 0}}))
	expect[HandedOver](t, w.Handle(m, Released{Err: claim.ErrOtherOwner}))
	if w.Bytes() > 0 {
		t.Error("the catalog was kept, though another owner was in between")
	}
}

func TestRefusedRecordOfATopicCreatedAgain(t *testing.T) {
	w, m := flushing(t)
	refuse(t, w, m)
	w.Handle(m, RecordRead{Err: record.ErrTopicGone})
	m.Now += longestDelay
	expect[AskTopic](t, w.Handle(m, Ticked{}))
}

func TestRefusedRecordIsNotReadBetweenTerms(t *testing.T) {
	w, m := flushing(t)
	refuse(t, w, m)
	w.Handle(m, Abandoned{})
	absent[ReadRecord](t, w.Handle(m, Assigned{TopicID: thisTopic}))
}

func TestRefusedMeasurementWithoutDeadLetterTopicStops(t *testing.T) {
	w, m := flushing(t, stopOnBad)
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Refused, Code: 121}}})
	absent[ReadRecord](t, w.Handle(m, Fetched{Batch: record.Batch{Next: 1, End: 1}}))
	if s := w.Status(m.Now); s.Stopped == nil || s.Stopped.Reason != "bad_record" {
		t.Fatalf("stopped: %v", s.Stopped)
	}
	wants(t, w, 0)
	expect[SendRelease](t, w.Handle(m, Revoked{}))
	expect[HandedOver](t, w.Handle(m, Released{}))
}

func TestStoppedPartitionAsksAgainWhatIsStored(t *testing.T) {
	w, m := newTestWorker(t, stopOnBad)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(0, "["+good+`,{"meta":"a"}]`)}, Next: 1, End: 1}})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{})) // the good elements of the record
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	wants(t, w, 0)
	expect[SendRelease](t, w.Handle(m, Revoked{}))
	expect[HandedOver](t, w.Handle(m, Released{}))

	w.Handle(m, Assigned{TopicID: thisTopic, Consecutive: true})
	mine := claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{7}, Released: true}
	expect[CommitNow](t, w.Handle(m, ClaimRead{Seen: mine, Bounds: record.Bounds{End: 1}}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true}))
}

// refuse makes MongoDB refuse the only measurement, whose record is then read again.
func refuse(t *testing.T, w *Worker, m Moment) {
	t.Helper()
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Refused, Code: 121}}})
	m.Now += longestDelay
	expect[ReadRecord](t, w.Handle(m, Ticked{}))
}

// TestOwnCommitCountsWhereNothingWasCommitted covers a topic that replaces an empty one. It begins at KAFKA_START, which may be
// the end of the log. Records since the first commit are not skipped if its claim fails.
func TestOwnCommitCountsWhereNothingWasCommitted(t *testing.T) {
	w, m := newIdleWorker(t)
	w.Handle(m, Assigned{TopicID: thisTopic, From: &claim.Committed{Offset: -1}})
	expect[CommitNow](t, w.Handle(m, ClaimRead{Committed: claim.Committed{Offset: -1}, FirstPartitions: 4}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 0, SentAt: m.Now}))
	w.Handle(m, Claimed{Err: errDown})
	m.Now += time.Minute
	expect[ReadClaim](t, w.Handle(m, Ticked{}))
	ours := claim.Committed{Offset: 0, Metadata: w.provenance().String()}
	w.Handle(m, ClaimRead{Committed: ours, FirstPartitions: 4, Bounds: record.Bounds{End: 2, Start: 2}})
	if start := w.term.start.Offset; start != 0 {
		t.Errorf("it starts at %d", start)
	}
}
