package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// fakeLog is a partition that gets records at a steady rate from begin on.
type fakeLog struct {
	partition int32
	begin     time.Time
	rate      int // records a second
	total     int64
	most      int // maximum records of a fetch
	series    int64
}

// end returns the present number of records.
func (l *fakeLog) end() int64 {
	return min(l.total, int64(time.Since(l.begin).Seconds()*float64(l.rate)))
}

// at returns the time at which a record arrived.
func (l *fakeLog) at(offset int64) time.Time {
	return l.begin.Add(time.Duration(float64(offset+1) / float64(l.rate) * float64(time.Second)))
}

// Await implements Log.
func (l *fakeLog) Await(ctx context.Context, offset, _ int64) (int64, error) {
	if offset >= l.end() {
		if err := wait(ctx, 500*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Take implements Log.
func (l *fakeLog) Take(offset int64, bytes int) (record.Batch, error) {
	end := l.end()
	b := record.Batch{Next: offset, End: end}
	for ; b.Next < end && len(b.Records) < min(l.most, bytes/128); b.Next++ {
		at := l.at(b.Next)
		b.Records = append(b.Records, record.Record{Offset: b.Next, Timestamp: at.UnixMilli(), Value: fmt.Appendf(nil,
			`{"time":%q,"meta":"p%d/s%d","celsius":%d.5,"humidity":%d,"pressure":%d,"rssi":-%d,"count":%d}`,
			at.Format(time.RFC3339Nano), l.partition, b.Next%l.series, b.Next%50, b.Next%100, b.Next%1100, b.Next%90, b.Next)})
		b.Bytes += int64(len(b.Records[len(b.Records)-1].Value)) + 100
	}
	return b, nil
}

// Partitions implements Log.
func (l *fakeLog) Partitions(context.Context) (int32, error) { return 1, nil }

// Bounds implements Log.
func (l *fakeLog) Bounds(context.Context) (record.Bounds, error) {
	return record.Bounds{End: l.end()}, nil
}

// events returns a partition of the topic events.
func events(partition int32) record.Partition {
	return record.Partition{Topic: "events", Number: partition}
}

// wait waits for d, or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errTimeout = errors.New("no answer within the write timeout")

// fakeDatabase is the database of all partitions. While it stands still, it answers nothing, but executes every second write.
type fakeDatabase struct {
	timeout time.Duration
	// perWrite is the duration of one write of a partition. Writes of other partitions run in parallel.
	perWrite time.Duration

	mu      sync.Mutex
	still   bool
	buckets map[bson.ObjectID]int32
	stored  map[int32]map[timeseries.Position]int
	claims  map[int32]claim.Document
	slowest map[int32]time.Duration // longest time from a record's time until it was stored
	logs    map[int32]*fakeLog
}

func newFakeDatabase() *fakeDatabase {
	return &fakeDatabase{
		timeout: 10 * time.Second, perWrite: time.Microsecond, buckets: map[bson.ObjectID]int32{},
		stored: map[int32]map[timeseries.Position]int{}, slowest: map[int32]time.Duration{}, claims: map[int32]claim.Document{}, logs: map[int32]*fakeLog{},
	}
}

// claimed returns the partition documents.
func (d *fakeDatabase) claimed() map[int32]claim.Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.claims)
}

// count returns the number of stored measurements of a partition.
func (d *fakeDatabase) count(partition int32) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.stored[partition])
}

// standStill stops the database, or lets it continue.
func (d *fakeDatabase) standStill(still bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.still = still
}

// answer waits for the duration of n writes. It returns an error if no answer comes in time.
func (d *fakeDatabase) answer(ctx context.Context, n int) error {
	d.mu.Lock()
	still := d.still
	d.mu.Unlock()
	if still {
		_ = wait(ctx, d.timeout)
		return errTimeout
	}
	return wait(ctx, time.Duration(n)*d.perWrite+time.Millisecond)
}

// execute executes a write if its bucket has the expected count.
func (d *fakeDatabase) execute(partition int32, w *bucketer.Write) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.buckets[w.ID] != w.Count-w.Added {
		return false
	}
	d.buckets[w.ID] = w.Count
	if d.stored[partition] == nil {
		d.stored[partition] = map[timeseries.Position]int{}
	}
	positions, err := timeseries.DecodePositions(nil, w.Offsets)
	if err != nil {
		panic(err)
	}
	for _, p := range positions {
		d.stored[partition][p]++
		d.slowest[partition] = max(d.slowest[partition], time.Since(d.logs[partition].at(p.Offset)))
	}
	return true
}

// fakeStore is the view of one partition on the database.
type fakeStore struct {
	*fakeDatabase
	partition int32
}

// Read implements Store.
func (s fakeStore) Read(context.Context) (claim.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[s.partition], nil
}

// Claim implements Store.
func (s fakeStore) Claim(_ context.Context, seen claim.Document, ours claim.Claim) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[s.partition].Claim != seen.Claim {
		return false, nil
	}
	s.claims[s.partition] = claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: ours.Token, Start: ours.Start, Wait: ours.Wait}
	return true, nil
}

// FirstPartitions implements Store.
func (s fakeStore) FirstPartitions(_ context.Context, now int32) (int32, error) { return now, nil }

// Stored implements Store.
func (s fakeStore) Stored(_ context.Context, start, end int64) (*timeseries.PositionSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := timeseries.NewPositionSet(start, end)
	for p := range s.stored[s.partition] {
		if p.Offset >= start && p.Offset < end {
			set.Add(p)
		}
	}
	return set, nil
}

// Newest implements Store.
func (s fakeStore) Newest(context.Context) (int64, error) { return math.MaxInt64, nil }

// Send implements Store.
func (s fakeStore) Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent {
	sent := make([]bucketer.Sent, len(writes))
	err := s.answer(ctx, len(writes))
	for i, w := range writes {
		if err != nil {
			if sent[i] = (bucketer.Sent{Result: bucketer.Unknown, Err: err}); i%2 == 0 {
				s.execute(s.partition, w)
			}
		} else if !s.execute(s.partition, w) {
			sent[i] = bucketer.Sent{Result: bucketer.Unknown, Err: errors.New("the bucket is not as the write says")}
		}
	}
	return sent
}

// Resolve implements Store.
func (s fakeStore) Resolve(ctx context.Context, writes []*bucketer.Write) ([]bucketer.Result, error) {
	if err := s.answer(ctx, 1); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]bucketer.Result, len(writes))
	for i, w := range writes {
		switch s.buckets[w.ID] {
		case w.Count:
			found[i] = bucketer.Applied
		case w.Count - w.Added:
			found[i] = bucketer.NotApplied
		default:
			found[i] = bucketer.Conflicted
		}
	}
	return found, nil
}

// Positions implements Store.
func (s fakeStore) Positions(context.Context, *bucketer.Write) ([]timeseries.Position, error) {
	panic("nobody else writes here: there is no conflict")
}

// Find implements Store.
func (s fakeStore) Find(ctx context.Context, lookups []bucketer.Lookup) ([]bucketer.Answer, error) {
	answers := make([]bucketer.Answer, len(lookups))
	for i := range lookups {
		answers[i].Lookup = lookups[i]
	}
	return answers, s.answer(ctx, 1)
}

// Segments implements Store.
func (s fakeStore) Segments(context.Context) (claim.Segments, error) { return claim.Segments{}, nil }

// ChangeSegments implements Store.
func (s fakeStore) ChangeSegments(context.Context, *claim.Compaction, claim.SegmentChange, []claim.Segment) error {
	panic("there are no segments")
}

// Frozen implements Store.
func (s fakeStore) Frozen(context.Context, *claim.Compaction) (claim.Segments, error) {
	panic("there are no segments")
}

// DeleteCompacted implements Store.
func (s fakeStore) DeleteCompacted(context.Context, *claim.Compaction) error {
	panic("there are no segments")
}

// Sweep implements Store.
func (s fakeStore) Sweep(context.Context, []claim.Segment, time.Time) error {
	panic("there are no segments")
}

// NoteWaited implements Store.
func (s fakeStore) NoteWaited(context.Context, claim.Token, time.Duration) error { return nil }

// NoteLost implements Store.
func (s fakeStore) NoteLost(context.Context, claim.Lost) error { return nil }

// Release implements Store.
func (s fakeStore) Release(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.claims[s.partition]
	seen.Released = true
	s.claims[s.partition] = seen
	return nil
}

// fakePorts opens the fake logs and stores.
type fakePorts struct {
	database *fakeDatabase
	logs     []*fakeLog
	unread   error // error of reading the committed offset
}

// Open implements Ports.
func (p fakePorts) Open(source timeseries.Source) (Log, Store) {
	return p.logs[source.Partition], fakeStore{p.database, source.Partition}
}

// DeadLetters implements Ports.
func (p fakePorts) DeadLetters(string) DeadLetters { return nil }

func (p fakePorts) Schemas() Schemas { return nil }

// TopicID implements Ports.
func (p fakePorts) TopicID(context.Context, string) ([16]byte, error) { return thisTopic, nil }

// Committed implements Ports.
func (p fakePorts) Committed(context.Context, record.Partition) (claim.Committed, error) {
	return claim.Committed{}, p.unread
}

// fakeGeneration answers every commit, and so renews the lease.
type fakeGeneration struct {
	mu        sync.Mutex
	committed map[int32]int64
	renewed   time.Time
	longest   time.Duration // longest time between two commits
}

// Held implements Generation.
func (g *fakeGeneration) Held() bool { return true }

// Renewed implements Generation.
func (g *fakeGeneration) Renewed() Instant { return 0 }

// at returns the committed offset of a partition.
func (g *fakeGeneration) at(partition int32) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.committed[partition]
}

// Commit implements Generation.
func (g *fakeGeneration) Commit(_ context.Context, commits []record.Commit) ([]error, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.renewed.IsZero() {
		g.longest = max(g.longest, time.Since(g.renewed))
	}
	g.renewed = time.Now()
	for _, c := range commits {
		g.committed[c.Number] = c.Offset
	}
	return slices.Repeat([]error{nil}, len(commits)), nil
}

// newFakeConsumer returns a consumer on the fakes, with the program's defaults. Partitions with even numbers reopen buckets.
func newFakeConsumer(t *testing.T, ports Ports, budget *Budget, o timeseries.Options) *Consumer {
	t.Helper()
	collection, err := o.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	limits := timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}
	base, metrics := time.Now(), NewMetrics(prometheus.NewRegistry())
	return NewConsumer(ConsumerOptions{
		NewWorker: func(p record.Partition) *Worker {
			decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta"})
			if err != nil {
				panic(err)
			}
			return NewWorker(Options{
				Partition: p, Group: "g", ClusterID: "cluster", Namespace: "db.events", Decoder: decoder,
				Bucketing:     bucketer.Options{Collection: collection, Limits: limits, DeltaMax: 16, Reopen: p.Number%2 == 0},
				FlushInterval: 5 * time.Second, FlushBytes: 64 << 20, FlushCount: 500_000, Wait: 30 * time.Second, WriteGrace: 20 * time.Second,
				Warm: true, NewToken: func() claim.Token { return claim.Token{byte(time.Since(base) / time.Second), byte(p.Number), 1} }, Random: rand.New(rand.NewPCG(uint64(p.Number), 2)),
				Log: slog.New(slog.DiscardHandler), Metrics: metrics, Outages: silent,
			})
		},
		Ports: ports, Budget: budget, CommitInterval: time.Second, Lease: 10 * time.Second, Metrics: metrics,
		Clock: func() Instant { return time.Hour + time.Since(base) },
	})
}
