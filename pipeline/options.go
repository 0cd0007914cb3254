package pipeline

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/claim"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// The defaults of Options.
const (
	// DefaultSchemaUnknownWait is longer than the servers of a registry take to learn of a new schema.
	DefaultSchemaUnknownWait = 30 * time.Second
	// DefaultWindow takes 32 MiB at one bit per offset, in the worst case.
	DefaultWindow = 1 << 28
	// DefaultPortion is about ten milliseconds of work.
	DefaultPortion          = 4 << 20
	DefaultDeadLetterBuffer = 4 << 20
	// DefaultSend is nearly one bulk call of small writes. Even a slow database answers that in time when several partitions begin
	// at once. Each action that is answered in time raises the bound up to four times.
	DefaultSend = 4 << 20
	// DefaultFlushWrites is more than a flush of dense buckets needs. That many small inserts take some 50 MiB until they are
	// answered.
	DefaultFlushWrites = 1 << 16
	// DefaultDenseFrom follows from the costs. An update takes MongoDB at least 300 µs whatever it carries. A measurement that
	// goes through a segment takes some 5 µs.
	DefaultDenseFrom = 64
	// DefaultCompactDelay is longer than the takeover of a partition whose owner died during a compaction.
	DefaultCompactDelay = 4 * time.Minute
	// DefaultCompactMargin is longer than server clocks differ and secondaries lag in a maintained deployment.
	DefaultCompactMargin = 15 * time.Second
	// DefaultSegmentRetention is longer than queries should take.
	DefaultSegmentRetention = 10 * time.Minute
	// DefaultCompactBytes of segments take some ten times as much memory while they are compacted.
	DefaultCompactBytes = 8 << 20
	// DefaultSegmentMeasurements are ten minutes of 800 measurements a second.
	DefaultSegmentMeasurements = 500_000
)

// Options set a Worker up. All are required unless said otherwise.
type Options struct {
	Partition record.Partition
	Group     string
	ClusterID string
	// Namespace is database.collection, for the metadata of commits.
	Namespace string
	// Bucketing sets the catalog up. The worker sets its Source, and CollectionChanged changes its Collection. A FlushWrites of
	// zero means DefaultFlushWrites.
	Bucketing bucketer.Options
	Decoder   *measurement.Decoder
	// OutOfRange says what to do about an offset beyond the log's end.
	OutOfRange claim.OutOfRange
	// SchemaUnknownWait is how long the registry is asked for a schema that it says it does not have. Zero means the default.
	SchemaUnknownWait time.Duration
	// StopOnBad means that there is no dead-letter topic, so a bad record stops the partition.
	StopOnBad bool
	// FlushInterval bounds how long a measurement waits for its write. FlushBytes and FlushCount bound how much may wait.
	FlushInterval time.Duration
	FlushBytes    int64
	FlushCount    int
	// Sharded means that the collection may lie on several shards, so that an edit of metas may move a bucket.
	Sharded bool
	// Wait is how long the next owner must wait for us, that is, lease plus write grace period. WriteGrace is how long a write may
	// still be executed after it was sent.
	Wait, WriteGrace time.Duration
	// Window is how many offsets the stored positions cover at a time. Zero means DefaultWindow.
	Window int64
	// Portion is how many bytes of records, or equivalent work, one call of Handle takes. Zero means DefaultPortion. One record is
	// always taken whole.
	Portion int
	// DeadLetterBuffer is how many bytes of letters may wait before no more records are taken. Zero means DefaultDeadLetterBuffer.
	// LongestDeadLetter is how many bytes of a record its letter keeps. Zero means all.
	DeadLetterBuffer  int64
	LongestDeadLetter int
	// Send bounds the weight (weigh) of the first SendWrites. Later ones may carry as much as the database manages in a quarter of
	// the write timeout. One write is always sent. Zero means DefaultSend.
	Send int64
	// Segments means that the collection may have segments, which are compacted. Bucketing.DenseFrom decides whether new segments
	// are written.
	Segments bool
	// CompactInterval is about how long measurements stay in segments.
	CompactInterval time.Duration
	// CompactDelay is the time between making the buckets of a compaction and showing them. CompactMargin is by how much clocks
	// may differ and secondaries may lag. SegmentRetention is how long segments stay after their end, which must be longer than
	// queries take. Zero means the defaults.
	CompactDelay, CompactMargin, SegmentRetention time.Duration
	// CompactBytes bounds the segments of one compaction, in bytes. SegmentMeasurements is the number of measurements in segments
	// from which they are compacted at once. Zero means the defaults.
	CompactBytes, SegmentMeasurements int64
	// Warm means that a catalog outlives a hand-over if no other process owned the partition in between.
	Warm bool
	// NewToken makes a random token. Random is the source of jitter for retries.
	NewToken func() claim.Token
	Random   *rand.Rand
	Log      *slog.Logger
	Metrics  *Metrics
	Outages  *Outages
	// Losses remembers where the log lacked an offset. Nil remembers nothing.
	Losses *Losses

	newCatalog func(bucketer.Options) *bucketer.Catalog // Nil means bucketer.New.
}

// handle takes in changed options of the collection.
func (e CollectionChanged) handle(w *Worker, _ Moment) {
	w.newOptions = &e.Options
	w.followCollection()
}

// followCollection applies the newest options of the collection, once there is a catalog. Open buckets keep their minimum
// times, and the new span holds for them at once. Options that do not fit existing buckets, such as a smaller span or another
// time field, stop the partition until they are restored.
func (w *Worker) followCollection() {
	if w.newOptions == nil || w.phase != running {
		return
	}
	have := w.o.Bucketing.Collection
	changed, err := have.Change(*w.newOptions)
	if err != nil {
		w.stop(&record.StopError{Reason: "collection_changed", Detail: fmt.Sprintf(
			"the options of the collection %s were changed to values that its buckets do not allow: %v; restore the former values in the "+
				"options document, and the partition continues", w.o.Namespace, err)})
		return
	}
	w.newOptions = nil
	if w.halt != nil && w.halt.Reason == "collection_changed" {
		w.halt = nil
	}
	if changed == have {
		return
	}
	w.o.Bucketing.Collection = changed
	w.catalog.SetCollection(changed)
	w.log.Info("the options of the collection changed", "granularity", changed.Granularity, "span_seconds", changed.MaxSpanSeconds)
}
