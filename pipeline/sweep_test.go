package pipeline

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
)

// withSegments makes the time series use segments.
func withSegments(o *Options) {
	o.Segments, o.CompactInterval, o.CompactDelay, o.SegmentRetention = true, 10*time.Minute, time.Minute, 10*time.Minute
	o.Bucketing.DenseFrom = DefaultDenseFrom
}

// These are refusals as package sink returns them.
var (
	errNoRight = fmt.Errorf("deleting ended segments: code 13: %w", claim.ErrUnauthorized)
	errRefused = fmt.Errorf("ending segments: code 121: %w", claim.ErrRefused)
)

// sweeping returns a worker that is about to delete an ended segment, while another one waits.
func sweeping(t *testing.T, log *strings.Builder) (*Worker, Moment, SweepSegments) {
	t.Helper()
	w, m := newTestWorker(t, withSegments, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	over, waits := bson.ObjectID{1}, bson.ObjectID{2}
	sweep := expect[SweepSegments](t, w.Handle(m, SegmentsRead{Segments: claim.Segments{Now: now, All: []claim.Segment{
		{ID: over, Compaction: claim.Token{1}, TopicID: thisTopic, VisibleUntil: now.Add(-time.Hour).UnixMilli()}, {ID: waits, TopicID: thisTopic},
	}}}))
	if len(sweep.Segments) != 1 || sweep.Segments[0].ID != over {
		t.Fatalf("it deletes %v", sweep.Segments)
	}
	return w, m, sweep
}

// TestCompactionGoesOnWithoutTheRightToDelete checks that the refusal is logged and retried later, and that other work continues.
func TestCompactionGoesOnWithoutTheRightToDelete(t *testing.T) {
	var log strings.Builder
	w, m, _ := sweeping(t, &log)
	m.Now += w.o.CompactInterval
	freeze := expect[ChangeSegments](t, w.Handle(m, SegmentsSwept{Err: errNoRight}))
	if len(freeze.Segments) != 1 || freeze.Segments[0].ID != (bson.ObjectID{2}) || freeze.Change != claim.Freeze {
		t.Errorf("it freezes %v", freeze)
	}
	expect[ReadFrozen](t, w.Handle(m, SegmentsChanged{}))
	w.Handle(m, FrozenRead{}) // another process has deleted it
	if n := strings.Count(log.String(), "cannot be deleted"); n != 1 {
		t.Errorf("it is said %d times: %s", n, log.String())
	}
	absent[SweepSegments](t, w.Handle(m, Ticked{}))
	m.Now += refusedRetry
	expect[SweepSegments](t, w.Handle(m, Ticked{}))
	w.Handle(m, SegmentsSwept{})
	if len(w.term.segments.ended) > 0 {
		t.Errorf("with the right %v are left", w.term.segments.ended)
	}
}

// TestAReleaseDoesNotWaitForWhatWasRefused checks this because a refused command is never executed. The release waits for unknown
// commands (E4).
func TestAReleaseDoesNotWaitForWhatWasRefused(t *testing.T) {
	for err, releases := range map[error]bool{errNoRight: true, errDown: false} {
		var log strings.Builder
		w, m, _ := sweeping(t, &log)
		w.Handle(m, SegmentsSwept{Err: err})
		w.Handle(m, Fetched{Err: errDown})
		actions := w.Handle(m, Revoked{Shutdown: true})
		if releases {
			expect[SendRelease](t, actions)
		} else {
			absent[SendRelease](t, actions)
		}
	}
}
