package pipeline

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// losing returns a worker without a term, and its log.
func losing(t *testing.T, policy claim.OutOfRange) (*Worker, Moment, *bytes.Buffer) {
	t.Helper()
	w, m := newIdleWorker(t)
	log := &bytes.Buffer{}
	w.log, w.o.Losses, w.o.OutOfRange = slog.New(slog.NewTextHandler(log, nil)), &Losses{}, policy
	expect[Open](t, w.Handle(m, Assigned{TopicID: thisTopic}))
	return w, m, log
}

// handedOver is a partition document whose claim was released.
var handedOver = claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{9}, Released: true}

// claimed takes the worker from the read claim to the end of loading the stored positions.
func claimed(t *testing.T, w *Worker, m Moment, read ClaimRead, start int64) []Action {
	t.Helper()
	expect[CommitNow](t, w.Handle(m, read))
	want, _ := w.Want()
	expect[SendClaim](t, w.Handle(m, Committed{Offset: want.Offset, SentAt: m.Now}))
	if load := expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true})); load.Start != start {
		t.Fatalf("the stored positions are read from %d on, want %d", load.Start, start)
	}
	return w.Handle(m, StoredPositionsLoaded{Stored: timeseries.NewPositionSet(start, start+100)})
}

// TestRecordsLostBeforeTheStartAreToldAndNoted checks that nothing behind the lost records is committed before the note. A new
// owner in between therefore reports them again.
func TestRecordsLostBeforeTheStartAreToldAndNoted(t *testing.T) {
	w, m, log := losing(t, claim.StopOutOfRange)
	read := ClaimRead{
		Seen: handedOver, Committed: claim.Committed{Offset: 10, Metadata: w.provenance().String()}, Bounds: record.Bounds{First: 50, End: 100},
	}
	actions := claimed(t, w, m, read, 50)
	lost := claim.Lost{From: 10, To: 50}
	if note := expect[NoteLost](t, actions); note.Lost != lost {
		t.Errorf("%+v is noted", note.Lost)
	}
	expect[Fetch](t, actions) // the stream continues in the meantime
	wants(t, w, 10)
	if says := log.String(); !strings.Contains(says, "level=WARN") || !strings.Contains(says, "from=10 log_start=50 records=40") {
		t.Errorf("the log says:\n%s", says)
	}

	absent[NoteLost](t, w.Handle(m, LostNoted{Lost: lost, Err: errDown}))
	m.Now += longestDelay
	expect[NoteLost](t, w.Handle(m, Ticked{}))
	wants(t, w, 10)
	w.Handle(m, LostNoted{Lost: lost})
	wants(t, w, 50)
	if recent := w.o.Losses.Recent(m.Now + lossShown - time.Minute); len(recent) != 1 || recent[0].From != 10 || recent[0].To != 50 || recent[0].Policy != "" {
		t.Errorf("remembered is %+v", recent)
	}
	if recent := w.o.Losses.Recent(m.Now + lossShown + time.Minute); len(recent) != 0 {
		t.Errorf("after more than an hour %+v", recent)
	}
}

// TestRecordsLostOnTheWayAreNoted also covers records that are lost while others are being noted.
func TestRecordsLostOnTheWayAreNoted(t *testing.T) {
	w, m, log := losing(t, claim.StopOutOfRange)
	claimed(t, w, m, ClaimRead{Bounds: record.Bounds{End: 100}}, 0)
	lose := func(first int64) []Action {
		w.Handle(m, Fetched{Err: record.ErrOutOfRange})
		m.Now += longestDelay
		expect[AskBounds](t, w.Handle(m, Ticked{}))
		return w.Handle(m, BoundsAsked{Bounds: record.Bounds{First: first, End: 100}})
	}
	if note := expect[NoteLost](t, lose(20)); note.Lost != (claim.Lost{From: 0, To: 20}) {
		t.Errorf("%+v is noted", note.Lost)
	}
	absent[NoteLost](t, lose(30))
	if note := expect[NoteLost](t, w.Handle(m, LostNoted{Lost: claim.Lost{From: 0, To: 20}})); note.Lost != (claim.Lost{From: 0, To: 30}) {
		t.Errorf("then %+v is noted", note.Lost)
	}
	wants(t, w, 0)
	w.Handle(m, LostNoted{Lost: claim.Lost{From: 0, To: 30}})
	wants(t, w, 30)
	if recent := w.o.Losses.Recent(m.Now); len(recent) != 1 || recent[0].From != 0 || recent[0].To != 30 {
		t.Errorf("remembered is %+v", recent)
	}
	if says := log.String(); strings.Count(says, "level=WARN") != 2 || !strings.Contains(says, "from=20 log_start=30 records=10") {
		t.Errorf("the log says:\n%s", says)
	}
}

// TestNoteThatFindsAnotherClaimBeginsAnew checks that the new owner of the partition reports the loss.
func TestNoteThatFindsAnotherClaimBeginsAnew(t *testing.T) {
	w, m, _ := losing(t, claim.StopOutOfRange)
	read := ClaimRead{Seen: handedOver, Committed: claim.Committed{Offset: 10, Metadata: w.provenance().String()}, Bounds: record.Bounds{First: 50, End: 100}}
	claimed(t, w, m, read, 50)
	w.Handle(m, Fetched{Err: errDown})
	expect[Open](t, w.Handle(m, LostNoted{Err: claim.ErrOtherOwner}))
}

// TestRangesOfATermAreBounded checks that the document does not grow forever if retention is always faster.
func TestRangesOfATermAreBounded(t *testing.T) {
	w, _, _ := losing(t, claim.StopOutOfRange)
	for i := range 3 * int64(mostLost) {
		w.losing = &claim.Lost{From: 10 * i, To: 10*i + 5}
		w.busy.claim = true
		w.phase = idle
		LostNoted{Lost: w.noteOf(*w.losing)}.handle(w, Moment{})
	}
	first := map[int64]bool{}
	for _, l := range w.term.lost {
		first[l.From] = true
	}
	if grown := w.noteOf(claim.Lost{From: 5000, To: 5001}); len(first) != mostLost || !first[grown.From] || grown.To != 5001 {
		t.Errorf("%d ranges, the next is noted as %+v", len(first), grown)
	}
}

// TestKafkaOutOfRangeActsAloud covers losses at the start and later.
func TestKafkaOutOfRangeActsAloud(t *testing.T) {
	for policy, chosen := range map[claim.OutOfRange]int64{claim.EarliestOutOfRange: 7, claim.LatestOutOfRange: 100} {
		w, m, log := losing(t, policy)
		bounds := record.Bounds{First: 7, End: 100, High: 100}
		read := ClaimRead{Seen: handedOver, Committed: claim.Committed{Offset: 2000, Metadata: w.provenance().String()}, Bounds: bounds}
		absent[NoteLost](t, claimed(t, w, m, read, chosen))
		told := func(what string, wanted int64) {
			t.Helper()
			recent := w.o.Losses.Recent(m.Now)
			if len(recent) != 1 || recent[0].From != wanted || recent[0].Policy != string(policy) {
				t.Errorf("%s, %s: remembered is %+v", policy, what, recent)
			}
			says := log.String()
			if strings.Count(says, "level=WARN") != 1 || !strings.Contains(says, "KAFKA_OUT_OF_RANGE="+string(policy)) {
				t.Errorf("%s, %s: the log says:\n%s", policy, what, says)
			}
			log.Reset()
		}
		told("at the start", 2000)
		w.offsetTracker.next = 150
		w.Handle(m, Fetched{Err: record.ErrOutOfRange})
		m.Now += longestDelay
		expect[AskBounds](t, w.Handle(m, Ticked{}))
		w.Handle(m, BoundsAsked{Bounds: bounds})
		told("on the way", 150)
	}
}

// TestClaimThatIsTriedAgainTellsWhatItsCommitHides covers a retry after the group's committed offset has changed.
func TestClaimThatIsTriedAgainTellsWhatItsCommitHides(t *testing.T) {
	w, m, log := losing(t, claim.EarliestOutOfRange)
	ours, bounds := w.provenance().String(), record.Bounds{First: 7, End: 100, High: 100}
	expect[CommitNow](t, w.Handle(m, ClaimRead{Seen: handedOver, Committed: claim.Committed{Offset: 2000, Metadata: ours}, Bounds: bounds}))
	expect[SendClaim](t, w.Handle(m, Committed{Offset: 7, SentAt: m.Now}))
	w.Handle(m, Claimed{Err: errors.New("no answer")})
	m.Now += longestDelay
	expect[ReadClaim](t, w.Handle(m, Ticked{}))
	claimed(t, w, m, ClaimRead{Seen: handedOver, Committed: claim.Committed{Offset: 7, Metadata: ours}, Bounds: bounds}, 7)
	if says := log.String(); strings.Count(says, "KAFKA_OUT_OF_RANGE=earliest") != 1 || !strings.Contains(says, "offset=2000 log_end=100 from=7") {
		t.Errorf("the log says:\n%s", says)
	}
}
