package continuity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// load writes measurements of all series in turn at a steady rate, each with the present time.
type load struct {
	options Options
	client  *kgo.Client
	book    *events.Book
	fail    context.CancelCauseFunc // fails the scenario
	// acknowledged is called for each record that Kafka has acknowledged.
	acknowledged func(partition int32, offset int64, made time.Time)
	cancel       context.CancelFunc
	done         sync.WaitGroup
	stopped      bool
}

// startLoad writes to the topic until it is stopped.
func startLoad(ctx context.Context, o Options, topic string, fail context.CancelCauseFunc, acknowledged func(int32, int64, time.Time)) (*load, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(o.Servers.Brokers, ",")...), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, fmt.Errorf("making a producer: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &load{options: o, client: client, book: events.NewBook(), fail: fail, acknowledged: acknowledged, cancel: cancel}
	l.done.Go(func() {
		harness.AtRate(ctx, float64(o.Rate), func(n int, now time.Time) { l.send(context.WithoutCancel(ctx), n, now) })
	})
	return l, nil
}

// send writes measurement number n.
func (l *load) send(ctx context.Context, n int, now time.Time) {
	series := n % l.options.Series
	e := l.book.Add(events.Of(events.Reading{
		Time: now.UnixMilli(), Meta: fmt.Sprintf("sensor-%d", series),
		Fields: bson.D{{Key: "serial", Value: int32(n)}, {Key: "temperature", Value: float64(n%400) / 10}},
	}))
	record := &kgo.Record{Partition: int32(series % l.options.Partitions), Key: e.Key, Value: e.Value}
	l.client.Produce(ctx, record, func(r *kgo.Record, err error) {
		if err != nil {
			l.fail(fmt.Errorf("writing a record: %w", err))
			return
		}
		l.acknowledged(r.Partition, r.Offset, now)
	})
}

// stop ends the load once Kafka has acknowledged all of it. It may be called again.
func (l *load) stop(ctx context.Context) error {
	if l.stopped {
		return nil
	}
	l.stopped = true
	l.cancel()
	l.done.Wait()
	defer l.client.Close()
	if err := l.client.Flush(ctx); err != nil {
		return fmt.Errorf("writing the last records: %w", err)
	}
	return nil
}

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

// result computes the figures from the looks so far.
func (w *watch) result(first, begin, recovered time.Time, touched func(partition int32) bool) *Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return &Result{
		Recovered:       recovered.Sub(begin),
		Before:          gapOf(w.writes, first, begin, func(int32) bool { return true }),
		Own:             gapOf(w.writes, begin, now, touched),
		Others:          gapOf(w.writes, begin, now, func(p int32) bool { return !touched(p) }),
		FreshnessBefore: freshnessOf(w.samples, first, begin),
		Freshness:       freshnessOf(w.samples, begin, recovered),
		Looked:          longestGap(w.looks, first, now),
	}
}

// freshnessOf returns the freshness of the measurements first seen between from and to.
func freshnessOf(samples []sample, from, to time.Time) bench.Freshness {
	var ages []time.Duration
	for _, s := range samples {
		if s.seen.After(from) && !s.seen.After(to) {
			ages = append(ages, s.age)
		}
	}
	return bench.FreshnessOf(ages)
}

// longestGap returns the longest time between two consecutive writes that overlaps the interval from..to. writes are in order.
// The last gap counts until to.
func longestGap(writes []time.Time, from, to time.Time) time.Duration {
	last, longest := from, time.Duration(0)
	for _, at := range writes {
		if !at.Before(to) {
			break
		}
		if at.After(from) {
			longest = max(longest, at.Sub(last))
		}
		last = at
	}
	return max(longest, to.Sub(last))
}

// Gap is the longest time without a durable write, over some partitions.
type Gap struct {
	// Partitions is the number of these partitions. Partition has the longest gap.
	Partitions int
	Partition  int32
	Longest    time.Duration
	// Least is the longest gap of the partition that did best.
	Least time.Duration
}

// gapOf returns the gap of the wanted partitions. writes are by partition.
func gapOf(writes [][]time.Time, from, to time.Time, wanted func(partition int32) bool) (g Gap) {
	for p, of := range writes {
		if !wanted(int32(p)) {
			continue
		}
		longest := longestGap(of, from, to)
		if g.Partitions++; g.Partitions == 1 || longest < g.Least {
			g.Least = longest
		}
		if longest > g.Longest {
			g.Longest, g.Partition = longest, int32(p)
		}
	}
	return g
}

// String returns the least and the longest gap in seconds, and the number of partitions.
func (g Gap) String() string {
	if g.Partitions == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f–%.1f (%d)", g.Least.Seconds(), g.Longest.Seconds(), g.Partitions)
}

// sample is the time when a measurement was first seen, and its age then.
type sample struct {
	seen time.Time
	age  time.Duration
}
