package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// emptyCollection is a MongoDB collection without documents.
type emptyCollection struct{ mongodb.Editable }

// Find implements mongodb.Collection.
func (emptyCollection) Find(context.Context, mongodb.Query, func(bson.Raw) error) error { return nil }

// BenchmarkNewSeries measures a worker's work for a measurement of a new series, from the record to the encoded write. It runs
// with look-ups of stored buckets, which find nothing, and without.
func BenchmarkNewSeries(b *testing.B) {
	for _, reopen := range []bool{true, false} {
		b.Run(fmt.Sprintf("reopen=%v", reopen), func(b *testing.B) { benchmarkNewSeries(b, reopen) })
	}
}

func benchmarkNewSeries(b *testing.B, reopen bool) {
	const piece = 6700 // records in a piece of a fetch
	limits := timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}
	w, m := newIdleWorker(b, func(o *Options) {
		o.Bucketing.Limits, o.Bucketing.DeltaMax, o.Bucketing.Reopen = limits, 16, reopen
		o.FlushBytes, o.FlushCount, o.FlushInterval = 64<<20, 500_000, time.Minute
	})
	claimWith(b, w, m, Assigned{TopicID: thisTopic})
	store := sink.NewStore(
		collection.Ready{Ports: collection.Ports{Buckets: emptyCollection{}}, Options: w.o.Bucketing.Collection, BSONSize: true},
		sink.StoreOptions{MaxCount: limits.MaxCount, WriteTimeout: time.Second},
	)
	partition := store.Partition(w.source, "cluster", "group", "host")
	records := make([]record.Record, 0, piece)
	var took time.Duration
	measure := func(do func()) {
		started := processorTime(b)
		do()
		took += processorTime(b) - started
	}
	b.ReportAllocs()
	b.ResetTimer()
	queue := []Action{Fetch{}}
	for len(queue) > 0 {
		action := queue[0]
		queue = queue[1:]
		var event Event
		switch a := action.(type) {
		case Fetch:
			if a.Offset >= int64(b.N) {
				continue
			}
			b.StopTimer()
			records = records[:0]
			for offset := a.Offset; offset < int64(b.N) && len(records) < piece; offset++ {
				records = append(records, record.Record{Offset: offset, Timestamp: 1_772_366_400_000, Value: fmt.Appendf(nil,
					`{"time":"2026-03-01T12:00:00.%03dZ","meta":"sensor-%08d","celsius":21.5,"humidity":%d,"pressure":1013.5,"rssi":-60,"count":%d,"state":"on"}`,
					offset%1000, offset, offset%60, offset)})
			}
			b.StartTimer()
			event = Fetched{Batch: record.Batch{Records: records, Next: a.Offset + int64(len(records)), End: int64(b.N)}}
		case FindBuckets:
			measure(func() {
				answers, err := partition.Find(b.Context(), a.Lookups)
				event = BucketsFound{answers, err}
			})
		case SendWrites:
			event = WritesSent{Sent: make([]bucketer.Sent, len(a.Writes))}
		default:
			b.Fatalf("an action %T", a)
		}
		measure(func() { queue = append(queue, w.Handle(m, event)...) })
	}
	if stats := w.catalog.Stats(); stats.BucketsOpened != int64(b.N) {
		b.Fatalf("%d buckets were opened for %d series", stats.BucketsOpened, b.N)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "cpu-ns/series")
}
