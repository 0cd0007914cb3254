package sink

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// fieldCompact is where the options document says until when segments are to be compacted at once.
const fieldCompact = "compact"

// How long Compacted waits.
const (
	compactedPause    = time.Second
	compactedPatience = 5 * time.Minute  // for a first sign that somebody compacts
	compactedMargin   = 15 * time.Second // for clocks and servers that lag
)

// Compacted asks the owners of partitions to compact all segments of now, and waits until each has ended and no query sees it any
// more. Left is told how many have not.
func (d *Database) Compacted(ctx context.Context, series string, left func(segments int)) error {
	const doing = "waiting until segments are compacted"
	ports := d.series(series).ports
	open, _, err := openSegments(ctx, ports.Buckets, 0)
	if err != nil || len(open) == 0 {
		return failure(doing, err)
	}
	asked, began, best := time.Time{}, time.Now(), len(open)
	for {
		now, err := d.Clock(ctx)
		if err != nil {
			return err
		}
		if now.Sub(asked) >= time.Minute { // a change of the options may have taken it out
			asked = now
			update := Update{Filter: withID(timeseries.DefinitionID), Update: setFields(bson.D{{Key: fieldCompact, Value: bson.NewDateTimeFromTime(now)}})}
			if _, err := changed(ports.Options.Update(ctx, []Update{update})); err != nil {
				return failure("asking for a compaction", err)
			}
		}
		still, owners, err := openSegments(ctx, ports.Buckets, now.Add(-compactedMargin).UnixMilli())
		if err != nil {
			return failure(doing, err)
		}
		waits, ended, owner := 0, 0, ""
		for id := range open {
			if until, is := still[id]; is {
				waits++
				if until != 0 {
					ended++
				} else {
					owner = owners[id]
				}
			}
		}
		if left(waits); waits == 0 {
			return nil
		}
		if waits-ended < best {
			best, began = waits-ended, time.Now()
		}
		if ended < waits && time.Since(began) > compactedPatience {
			return fmt.Errorf("%s: nobody has compacted a segment for %v: start a consumer of %s that reads this partition, and run the command again",
				doing, compactedPatience, owner)
		}
		select {
		case <-time.After(compactedPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// openSegments are the segments that are shown after a moment, by _id: until when, zero where they have not ended; and their owners.
func openSegments(ctx context.Context, buckets Collection, after int64) (open map[string]int64, owners map[string]string, err error) {
	open, owners = map[string]int64{}, map[string]string{}
	query := Query{
		Filter: document(bson.D{
			timeseries.IsSegment(),
			{Key: timeseries.PathVisibleUntil, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lte", Value: bson.DateTime(after)}}}}},
		}),
		Projection: document(bson.D{{Key: timeseries.PathSegment, Value: 1}}), Batch: storedBatch,
	}
	err = buckets.Find(ctx, query, func(d bson.Raw) error {
		id := keyOf(d.Lookup(timeseries.FieldID))
		segment, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment).DocumentOK()
		open[id], _ = segment.Lookup(timeseries.FieldVisibleUntil).DateTimeOK()
		owners[id], _ = segment.Lookup(timeseries.FieldOwner).StringValueOK()
		return nil
	})
	return open, owners, err
}

// CompactionAsked is when a compaction of all segments was asked for last; zero: it never was.
func (s *Store) CompactionAsked(ctx context.Context) (time.Time, error) {
	raw, err := first(ctx, s.ports.Options, Query{Filter: withID(timeseries.DefinitionID)})
	if err != nil || raw == nil {
		return time.Time{}, failure("reading the collection's options", err)
	}
	at, ok := raw.Lookup(fieldCompact).TimeOK()
	if !ok {
		return time.Time{}, nil
	}
	return at, nil
}
