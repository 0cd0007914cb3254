package pipeline

import (
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
	// DefaultWindow is 32 MiB at one bit each, in the worst case.
	DefaultWindow = 1 << 28
	// DefaultPortion is some ten milliseconds' work.
	DefaultPortion      = 4 << 20
	DefaultLetterBuffer = 4 << 20
	// DefaultSend is a bulk call of small writes, nearly, and several partitions begin at once: what even a slow database
	// answers in time. It is four times as much with every action that the database is done with in time.
	DefaultSend = 4 << 20
	// DefaultFlushWrites is more than dense flushes have. So many small inserts take some 50 MiB until they are answered.
	DefaultFlushWrites = 1 << 16
	// DefaultDenseFrom follows from what they cost: an update takes MongoDB 300 µs and more whatever it carries, a measurement that goes
	// through a segment some five.
	DefaultDenseFrom = 64
	// DefaultCompactDelay is longer than the takeover of a partition whose owner died in the middle of a compaction.
	DefaultCompactDelay = 4 * time.Minute
	// DefaultCompactMargin is more than clocks of servers differ, and secondaries are behind, where either is looked after.
	DefaultCompactMargin = 15 * time.Second
	// DefaultSegmentRetention is longer than queries should take.
	DefaultSegmentRetention = 10 * time.Minute
	// DefaultCompactBytes take some ten times as much in memory while they are compacted.
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
	// Bucketing is the catalog's set-up; its Source is set by the worker, its Collection changes by CollectionChanged.
	// FlushWrites 0 is DefaultFlushWrites.
	Bucketing bucketer.Options
	Decoder   *measurement.Decoder
	// OutOfRange says what to do about an offset beyond the log's end.
	OutOfRange claim.OutOfRange
	// SchemaUnknownWait is how long the registry is asked for a schema that it says it does not have. Zero means the default.
	SchemaUnknownWait time.Duration
	// StopOnBad means that there is no dead-letter topic, a bad record stops the partition.
	StopOnBad bool
	// FlushInterval bounds how long a measurement waits for its write, FlushBytes and FlushCount how much may wait.
	FlushInterval time.Duration
	FlushBytes    int64
	FlushCount    int
	// Wait is how long the next owner must wait for us: lease and grace. Grace is how long a write may still be executed
	// after it was sent.
	Wait, Grace time.Duration
	// Window is how many offsets D covers at a time. Zero means DefaultWindow.
	Window int64
	// Portion is how many bytes of records one call of Handle takes, or what takes as long. Zero means DefaultPortion. One record is
	// always taken whole.
	Portion int
	// LetterBuffer is how many bytes of letters may wait before no record is taken. Zero means DefaultLetterBuffer. LongestLetter is how
	// many bytes of a record its letter keeps. Zero means all.
	LetterBuffer  int64
	LongestLetter int
	// Send is how much, as weigh has it, the first SendWrites may carry; those after it as much as the database manages in a
	// quarter of the write timeout. One write is always sent. Zero means DefaultSend.
	Send int64
	// Segments means that the collection may have segments, which are compacted. Bucketing.DenseFrom says whether new ones are written.
	Segments bool
	// CompactInterval is how long measurements stay in segments, about.
	CompactInterval time.Duration
	// CompactDelay is how long before they are shown the buckets of a compaction are made. CompactMargin is by how much clocks may
	// differ, and servers that are read from may be behind. SegmentRetention is how long segments stay after they have ended: longer
	// than queries take. Zero means the defaults.
	CompactDelay, CompactMargin, SegmentRetention time.Duration
	// CompactBytes bounds the segments of one compaction. SegmentMeasurements is from how many measurements in segments on they are
	// compacted at once. Zero means the defaults.
	CompactBytes, SegmentMeasurements int64
	// Warm means that a catalog outlives a hand-over if nobody was in between.
	Warm bool
	// NewToken makes a random token; Random feeds the jitter of retries.
	NewToken func() claim.Token
	Random   *rand.Rand
	Log      *slog.Logger
	Metrics  *Metrics
	Outages  *Outages
	// Losses remembers where the log did not have an offset. Nil means that nobody does.
	Losses *Losses

	newCatalog func(bucketer.Options) *bucketer.Catalog // Nil means bucketer.New.
}
