package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// fieldCompact is the field of the options document with the time at which a compaction of all segments was last asked for.
const fieldCompact = "compact"

// Bounds of the wait for a compaction.
const (
	askAgain        = time.Minute      // without progress, because a new owner of a partition may not have seen the request
	askPause        = time.Second      // least time between two looks
	askSlowPause    = 10 * time.Second // largest time between two looks
	askPatience     = 3 * time.Minute  // without progress, before the wait is given up
	askAbandoned    = 30 * time.Second // the same, if the owners have released the partitions
	compactedMargin = 15 * time.Second // by how much clocks may differ
)

// CompactionRequest asks the consumers to compact the segments of a time series, and waits for the segments that its first look
// finds. It survives outages: a later wait goes on with the same segments.
type CompactionRequest struct {
	buckets, options mongodb.Collection
	clock            func(context.Context) (time.Time, error) // MongoDB's clock
	partitions       func(context.Context) ([]PartitionDocument, error)
	needed           func(context.Context) (bool, error) // whether the time series has segments

	segments map[string]bool // the segments waited for, by _id
	best     int             // the smallest number of remaining steps so far
	progress time.Time       // when best was reached, or a wait began
	asked    time.Time
}

// RequestCompaction returns a request that has not asked yet.
func (c Contents) RequestCompaction() *CompactionRequest {
	return &CompactionRequest{
		buckets: c.ports.Buckets, options: c.ports.Options, clock: c.ports.Clock, partitions: c.Partitions,
		needed: func(ctx context.Context) (bool, error) {
			definition, err := collection.ReadDefinition(ctx, c.ports.Options)
			return definition.Segments, err
		},
	}
}

// Left counts the segments that Wait would wait for.
func (w *CompactionRequest) Left(ctx context.Context) (segments int, err error) {
	if needed, err := w.needed(ctx); err != nil || !needed {
		return 0, err
	}
	now, err := w.look(ctx)
	return now.segments, err
}

// Wait returns when each of the segments has ended, and no query shows it any more. It calls left with the number of segments that
// are left. progress reports whether it saw some end or freeze. If no consumer compacts, the error says what to start.
func (w *CompactionRequest) Wait(ctx context.Context, left func(segments int)) (progress bool, err error) {
	if needed, err := w.needed(ctx); err != nil || !needed {
		return false, err
	}
	w.progress = time.Now()
	for {
		began := time.Now()
		now, err := w.look(ctx)
		if err != nil {
			return progress, fmt.Errorf("waiting until segments are compacted: %w", err)
		}
		if left(now.segments); now.segments == 0 {
			return progress, nil
		}
		if w.asked.IsZero() || now.steps < w.best {
			progress = !w.asked.IsZero()
			w.best, w.progress = now.steps, began
		}
		if now.steps > 0 {
			if err := w.urge(ctx, &now); err != nil {
				return progress, err
			}
		}
		select {
		case <-time.After(min(max(askPause, 5*time.Since(began)), askSlowPause)):
		case <-ctx.Done():
			return progress, context.Cause(ctx)
		}
	}
}

// waiting counts the remaining segments.
type waiting struct {
	segments int
	open     int             // how many of them are not frozen yet
	steps    int             // an open segment has two left, its freeze and its end; a frozen one has one
	owners   map[string]bool // owners of segments that have not ended
}

// urge asks for a compaction, for the first time or again. It gives up when there is no progress.
func (w *CompactionRequest) urge(ctx context.Context, now *waiting) error {
	without := time.Since(w.progress)
	if without >= askAbandoned {
		running, err := w.owned(ctx, now)
		if err != nil {
			return err
		}
		if without >= askPatience || !running {
			return now.giveUp(without)
		}
	}
	if again := !w.asked.IsZero(); again && (now.open == 0 || without < askAgain || time.Since(w.asked) < askAgain) {
		return nil
	}
	w.asked = time.Now()
	at, err := w.clock(ctx)
	if err != nil {
		return err
	}
	update := mongodb.Update{Filter: mongodb.WithID(timeseries.DefinitionID), Update: mongodb.Set(bson.D{{Key: fieldCompact, Value: bson.NewDateTimeFromTime(at)}})}
	_, err = mongodb.Changed(w.options.Update(ctx, []mongodb.Update{update}))
	return mongodb.Failure("requesting a compaction", err)
}

// owned reports whether a consumer may own one of the partitions whose segments have not ended, that is, whether its claim is
// not released.
func (w *CompactionRequest) owned(ctx context.Context, now *waiting) (bool, error) {
	documents, err := w.partitions(ctx)
	return slices.ContainsFunc(documents, func(d PartitionDocument) bool { return now.owners[d.ID] && !d.Released }), err
}

// giveUp returns the error that says what to start.
func (w *waiting) giveUp(after time.Duration) error {
	var names []string
	for owner := range w.owners {
		_, name, _ := strings.Cut(owner, "/") // without the cluster: topic/partition
		names = append(names, name)
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], fmt.Sprintf(" and %d more partitions", n)
	}
	return fmt.Errorf("no consumer has compacted a segment of %s%s for %s: start `waterwheel run` with the settings of this topic, "+
		"and run the command again; if a consumer is running, its log shows the cause", strings.Join(names, ", "), more, after.Round(time.Second))
}

// look counts the remaining segments. The first look decides which segments are waited for.
func (w *CompactionRequest) look(ctx context.Context) (now waiting, err error) {
	at, err := w.clock(ctx)
	if err != nil {
		return now, err
	}
	query := mongodb.Query{
		Filter: mongodb.Document(bson.D{
			timeseries.IsSegment(),
			{Key: timeseries.PathVisibleUntil, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lte", Value: bson.NewDateTimeFromTime(at.Add(-compactedMargin))}}}}},
		}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.PathSegment, Value: 1}}), Batch: storedBatch,
	}
	taken := w.segments
	if taken == nil {
		taken = map[string]bool{}
	}
	now.owners = map[string]bool{}
	err = w.buckets.Find(ctx, query, func(d bson.Raw) error {
		id := timeseries.Key(d.Lookup(timeseries.FieldID))
		if w.segments == nil {
			taken[id] = true
		}
		if !taken[id] {
			return nil
		}
		segment, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment).DocumentOK()
		if now.segments++; segment.Lookup(timeseries.FieldVisibleUntil).Type != 0 {
			return nil
		}
		if now.steps++; segment.Lookup(timeseries.FieldCompaction).Type == 0 {
			now.open, now.steps = now.open+1, now.steps+1
		}
		owner, _ := segment.Lookup(timeseries.FieldOwner).StringValueOK()
		now.owners[owner] = true
		return nil
	})
	if err == nil {
		w.segments = taken
	}
	return now, mongodb.Failure("counting the remaining segments", err)
}

// CompactionAsked returns the time, by MongoDB's clock, at which a compaction of all segments was last asked for. Zero means
// never.
func (s *Store) CompactionAsked(ctx context.Context) (time.Time, error) {
	raw, err := mongodb.First(ctx, s.Ports.Options, mongodb.Query{
		Filter: mongodb.WithID(timeseries.DefinitionID), Projection: mongodb.Document(bson.D{{Key: fieldCompact, Value: 1}}),
	})
	if err != nil || raw == nil {
		return time.Time{}, mongodb.Failure("reading whether a command has requested a compaction", err)
	}
	at, ok := raw.Lookup(fieldCompact).TimeOK()
	if !ok {
		return time.Time{}, nil
	}
	return at, nil
}
