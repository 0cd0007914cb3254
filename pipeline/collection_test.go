package pipeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

func definedBy(g timeseries.Granularity) timeseries.Options {
	return timeseries.Options{TimeField: "time", MetaField: "meta", Granularity: g}
}

// hourly returns a measurement of the same series, hours after the first one.
func hourly(offset int64, hours int) record.Record {
	return recordOf(offset, fmt.Sprintf(`{"time":%d,"meta":"a","x":1}`, 1_767_000_000_000+hours*3_600_000))
}

// roomy lets a bucket take more than one measurement.
func roomy(o *Options) {
	o.Bucketing.Limits = timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}
}

// withStoredBucket returns a worker with a stored bucket that begins at hour 0, and room in it.
func withStoredBucket(t *testing.T, changes ...func(*Options)) (*Worker, Moment) {
	t.Helper()
	w, m := newTestWorker(t, append(changes, roomy)...)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{hourly(0, 0)}, Next: 1, End: 1}})
	m.Now += w.o.FlushInterval
	expect[SendWrites](t, w.Handle(m, Ticked{}))
	w.Handle(m, WritesSent{Sent: []bucketer.Sent{{Result: bucketer.Applied}}})
	w.Handle(m, Committed{Offset: 1, SentAt: m.Now})
	return w, m
}

// extends checks with which kind of write a measurement hours later is stored.
func extends(t *testing.T, w *Worker, m Moment, hours int, want bucketer.Kind) {
	t.Helper()
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{hourly(1, hours)}, Next: 2, End: 2}})
	m.Now += w.o.FlushInterval
	if sent := expect[SendWrites](t, w.Handle(m, Ticked{})).Writes; len(sent) != 1 || sent[0].Kind != want {
		t.Fatalf("%d hours later: %d writes, the first of kind %v, want one of %v", hours, len(sent), sent[0].Kind, want)
	}
}

func TestRaisedGranularityHoldsForOpenBucketsAtOnce(t *testing.T) {
	w, m := withStoredBucket(t)
	extends(t, w, m, 3, bucketer.Insert)
	w, m = withStoredBucket(t)
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Minutes)})
	extends(t, w, m, 3, bucketer.Update)
}

func TestWarmCatalogFollowsChangedOptionsWhenItIsTakenUp(t *testing.T) {
	w, m := withStoredBucket(t)
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, Abandoned{})
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Minutes)})
	w.Handle(m, Assigned{TopicID: thisTopic, Consecutive: true})
	w.Handle(m, ClaimRead{Seen: claim.Document{Found: true, Group: "g", TopicID: thisTopic, Claim: claim.Token{7}}, Committed: claim.Committed{Offset: 1}, Bounds: record.Bounds{End: 1}})
	w.Handle(m, Committed{Offset: 1, SentAt: m.Now})
	expect[Fetch](t, w.Handle(m, Claimed{Won: true}))
	extends(t, w, m, 3, bucketer.Update)
}

func TestLoweredGranularityStopsThePartitionUntilItIsSetBack(t *testing.T) {
	w, m := withStoredBucket(t)
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Hours)})
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Seconds)})
	if s := w.Status(m.Now); s.Stopped == nil || s.Stopped.Reason != "collection_changed" {
		t.Fatalf("stopped: %v", s.Stopped)
	}
	absent[Fetch](t, w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{hourly(1, 1)}, Next: 2, End: 2}}))
	if pending := w.Status(m.Now).Pending; pending != 0 {
		t.Fatal("what a stopped partition fetched was inserted, and will be read again")
	}
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Hours)})
	if again := expect[Fetch](t, w.Handle(m, Ticked{})).Offset; again != 1 {
		t.Fatalf("reads on at %d", again)
	}
	extends(t, w, m, 12, bucketer.Update)
}

func TestFirstReasonToStopStays(t *testing.T) {
	w, m := withStoredBucket(t, stopOnBad)
	w.Handle(m, Fetched{Batch: record.Batch{Records: []record.Record{recordOf(1, "["+good+`,{"meta":"a"}]`)}, Next: 2, End: 2}})
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Hours)})
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Seconds)})
	w.Handle(m, CollectionChanged{Options: definedBy(timeseries.Hours)})
	absent[Fetch](t, w.Handle(m, Ticked{})) // The good elements of the record wait already.
	if s := w.Status(m.Now); s.Stopped == nil || s.Stopped.Reason != "bad_record" {
		t.Fatalf("stopped: %v", s.Stopped)
	}
}

func TestLoweredGranularityStopsThePartitionInEveryTerm(t *testing.T) {
	w, m := withStoredBucket(t)
	w.Handle(m, CollectionChanged{Options: timeseries.Options{TimeField: "t", MetaField: "meta"}})
	w.Handle(m, Fetched{Err: errDown})
	w.Handle(m, Abandoned{})
	w.Handle(m, Dropped{})
	w.Handle(m, Assigned{TopicID: thisTopic})
	w.Handle(m, ClaimRead{Bounds: record.Bounds{End: 1000}})
	w.Handle(m, Committed{Offset: 0, SentAt: m.Now})
	load := expect[LoadStoredPositions](t, w.Handle(m, Claimed{Won: true}))
	absent[Fetch](t, w.Handle(m, StoredPositionsLoaded{Stored: timeseries.NewPositionSet(load.Start, load.End)}))
}

// TestChangedOptionsReachEveryWorker checks that the consumer passes changed options to its running workers, and to those made
// later.
func TestChangedOptionsReachEveryWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		custom := func(seconds int32) timeseries.Options {
			return timeseries.Options{TimeField: "time", MetaField: "meta", MaxSpanSeconds: seconds, RoundingSeconds: seconds}
		}
		database, gen := newFakeDatabase(), &fakeGeneration{committed: map[int32]int64{}}
		logs := []*fakeLog{
			{partition: 0, begin: time.Now(), rate: 2, total: 1 << 40, most: 100, series: 1},
			{partition: 1, begin: time.Now(), rate: 2, total: 1 << 40, most: 100, series: 1},
		}
		database.logs[0], database.logs[1] = logs[0], logs[1]
		consumer := newFakeConsumer(t, fakePorts{database: database, logs: logs}, NewBudget(1<<30), custom(10))
		opened := func() (sum int64) {
			for _, s := range consumer.Statuses() {
				sum += s.Buckets.BucketsOpened
			}
			return sum
		}
		first := Assignment{events(0), Assigned{TopicID: thisTopic}}
		other := Assignment{events(1), Assigned{TopicID: thisTopic}}

		consumer.Assigned(gen, []Assignment{first}, false)
		_ = wait(t.Context(), 61*time.Second)
		before := opened()
		consumer.SetCollection("events", custom(3600))
		_ = wait(t.Context(), time.Minute)
		if now := opened(); before < 5 || now != before {
			t.Errorf("%d buckets were opened in a minute with a span of 10 s, then %d more with one of an hour", before, now-before)
		}
		consumer.Revoke(context.Background(), false)
		consumer.Assigned(gen, []Assignment{first, other}, true)
		_ = wait(t.Context(), 40*time.Second) // the catalog of the first partition is kept, the other reads everything from the start
		for _, s := range consumer.Statuses() {
			if s.Number == other.Number && (s.Buckets.BucketsOpened != 1 || s.Position < 300) {
				t.Errorf("a worker made later opened %d buckets of %d records, want one", s.Buckets.BucketsOpened, s.Position)
			}
		}
		consumer.Revoke(context.Background(), true)
	})
}
