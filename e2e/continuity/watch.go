package continuity

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
)

// lookEvery is the pause after the answer to a look. It is much shorter than a flush interval.
const lookEvery = 50 * time.Millisecond

// watch observes in MongoDB when each partition is written to, that is, when a bucket or segment has a newer offset than any
// before. Everything up to that offset counts as stored, because the writes of a flush are milliseconds apart. A consumer killed
// between two of them may leave some measurements for later. The gap of its partition is seen all the same.
type watch struct {
	buckets *mongo.Collection
	topic   check.Topic

	mu      sync.Mutex
	newest  []int64       // newest stored offset by partition. -1 means none.
	writes  [][]time.Time // by partition
	waiting [][]made      // produced measurements that were not seen yet, by partition
	samples []sample
	looks   []time.Time
}

// made is a record that Kafka has acknowledged.
type made struct {
	offset int64
	at     time.Time
}

func newWatch(database *mongo.Database, topic check.Topic) *watch {
	n := int(topic.Partitions)
	return &watch{
		buckets: database.Collection(topic.Name + ".buckets"), topic: topic,
		newest: slices.Repeat([]int64{-1}, n), writes: make([][]time.Time, n), waiting: make([][]made, n),
	}
}

// acknowledged adds a record that Kafka has acknowledged.
func (w *watch) acknowledged(partition int32, offset int64, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[partition] = append(w.waiting[partition], made{offset, at})
}

// producedToAll reports whether Kafka has a record of each partition.
func (w *watch) producedToAll() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, waiting := range w.waiting {
		if len(waiting) == 0 && len(w.writes[p]) == 0 {
			return false
		}
	}
	return true
}

// run looks until the context ends.
func (w *watch) run(ctx context.Context, fail context.CancelCauseFunc) {
	for ctx.Err() == nil {
		found, err := w.look(ctx)
		now := time.Now()
		switch {
		case err != nil && ctx.Err() == nil:
			fail(fmt.Errorf("looking at the buckets: %w", err))
			return
		case err == nil:
			w.saw(found, now)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// look finds offsets that are newer than those seen. The index on topic id, partition and last offset covers the query.
func (w *watch) look(ctx context.Context) (map[int32]int64, error) {
	id := bson.Binary{Subtype: bson.TypeBinaryUUID, Data: w.topic.ID[:]}
	var newer bson.A
	for p, offset := range w.newest { // only this goroutine writes newest
		newer = append(newer, bson.D{
			{Key: "control.source.partition", Value: int32(p)},
			{Key: "control.source.topicId", Value: id},
			{Key: "control.source.last", Value: bson.D{{Key: "$gt", Value: offset}}},
		})
	}
	fields := bson.D{{Key: "_id", Value: 0}, {Key: "control.source.partition", Value: 1}, {Key: "control.source.last", Value: 1}}
	cursor, err := w.buckets.Find(ctx, bson.D{{Key: "$or", Value: newer}}, options.Find().SetProjection(fields))
	if err != nil {
		return nil, err
	}
	var documents []struct {
		Control struct {
			Source struct {
				Partition int32
				Last      int64
			}
		}
	}
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for _, d := range documents {
		found[d.Control.Source.Partition] = max(found[d.Control.Source.Partition], d.Control.Source.Last)
	}
	return found, nil
}

// saw records the result of a look.
func (w *watch) saw(found map[int32]int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, now)
	for p, offset := range found {
		w.newest[p] = offset
		w.writes[p] = append(w.writes[p], now)
	}
	for p, waiting := range w.waiting {
		for len(waiting) > 0 && waiting[0].offset <= w.newest[p] {
			w.samples = append(w.samples, sample{now, now.Sub(waiting[0].at)})
			waiting = waiting[1:]
		}
		w.waiting[p] = waiting
	}
}

// writtenSince reports whether each partition was written to at least times times after moment.
func (w *watch) writtenSince(moment time.Time, times int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, writes := range w.writes {
		if len(writes) < times || !writes[len(writes)-times].After(moment) {
			return false
		}
	}
	return true
}

// unseen returns the number of records that were not yet seen to be stored.
func (w *watch) unseen() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiting := range w.waiting {
		n += len(waiting)
	}
	return n
}
