package status

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/mongodb"
	"waterwheel/pipeline"
)

const (
	pingInterval = 2 * time.Second
	pingTimeout  = 2 * time.Second
	lookInterval = 2 * time.Second
	// patience is how long something may fail before the consumer is not ready. A change of leader is no outage.
	patience = 5 * time.Second
)

// Options are the inputs of a View besides the consumer's parts.
type Options struct {
	Version, Group string
	// MemoryLimit is the limit of the process, in bytes. Budget accounts for the part that the partitions share.
	MemoryLimit int64
	Budget      *pipeline.Budget
	SeriesMax   int64         // the number of series above which the log warns. Zero means no warning.
	MaxCount    int32         // maximum number of measurements in a bucket
	LogProgress time.Duration // the time between two progress lines
	// FlushInterval is how often measurements are written. A partition is late when it is several intervals behind.
	FlushInterval time.Duration
	Settings      []Setting // for the page, secrets masked
	Metrics       *pipeline.Metrics
	// Outages is informed whether MongoDB answers.
	Outages *pipeline.Outages
	// Losses are the places where a log did not have a requested offset. Nil means that they are not recorded.
	Losses *pipeline.Losses
	Log    *slog.Logger
	// Held is how long Log suppresses a repeated warning.
	Held time.Duration
}

// View is what pages and metrics show of the running consumer. It is safe for concurrent use.
type View struct {
	o           Options
	parts       atomic.Pointer[Parts]  // Nil means not connected yet.
	database    atomic.Pointer[outage] // Nil means that MongoDB answers.
	waits       waits                  // used until the parts are connected
	deadLetters recentDeadLetters
	members     members
	looks       *looks
	hour        *hour
	outages     *prometheus.CounterVec
	// overSeries counts the checks, one for each progress line, that found more series than SeriesMax.
	overSeries prometheus.Counter
}

// Parts are the parts of the consumer. They exist once Kafka and MongoDB are connected.
type Parts struct {
	Client   *kafka.Client
	Group    *group.Group
	Consumer *pipeline.Consumer
	Database Pinger
	// MostVaried names the fields of meta that have the most distinct values in memory.
	MostVaried func() string
	// Topics returns the last look for topics that match the patterns of KAFKA_TOPICS. Nil means that there are no looks.
	Topics func() *Topics
}

// Pinger pings MongoDB.
type Pinger interface {
	Ping(ctx context.Context) error
}

// outage is a server that does not answer.
type outage struct {
	since time.Time
	err   error
}

// New returns a View that reports that the consumer is not connected yet.
func New(o Options) *View {
	v := &View{
		o: o, deadLetters: recentDeadLetters{apart: o.Held + time.Second, untold: map[string]*untoldDeadLetters{}}, looks: newLooks(kafka.Now, o.Log), hour: newHour(o.FlushInterval, time.Now()),
		outages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waterwheel_outage_seconds_total", Help: "Time in which a dependency failed, as observed by this consumer.",
		}, []string{"dependency"}),
		overSeries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waterwheel_series_max_exceeded_total", Help: "Checks, once a minute, that found more series in memory than SERIES_MAX.",
		}),
	}
	for of := range pipeline.Dependencies {
		v.outages.WithLabelValues(of.String())
	}
	return v
}

// Watch shows the parts. Until the context ends it pings MongoDB, asks Kafka about partitions that their workers do not read, and
// logs lines about progress and letters.
func (v *View) Watch(ctx context.Context, p Parts) {
	v.parts.Store(&p)
	var together sync.WaitGroup
	defer together.Wait()
	together.Go(func() {
		every(ctx, pingInterval, func() {
			v.ping(ctx)
			v.countOutages()
			v.deadLetters.report(v.o.Log, time.Now())
		})
	})
	logs := kafkaLogs{p.Client, v.o.Group}
	together.Go(func() {
		every(ctx, lookInterval, func() { v.looks.refresh(ctx, logs, p.Consumer.Statuses()) })
	})
	together.Go(func() { every(ctx, sampleInterval, v.sample) })
	last := report{at: time.Now()}
	every(ctx, v.o.LogProgress, func() { last = v.progress(last) })
}

// every calls do at regular intervals until the context ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// statuses returns the state of the partitions now. Everything that is shown of partitions comes from it.
func (v *View) statuses(now time.Time) []*pipeline.Status {
	p := v.parts.Load()
	if p == nil {
		return nil
	}
	return v.looks.completed(p.Consumer.Statuses(), now)
}

func (v *View) ping(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := v.parts.Load().Database.Ping(within)
	if ctx.Err() != nil {
		return // the process ends, which says nothing about MongoDB
	}
	if err == nil {
		if v.database.Swap(nil) != nil {
			v.o.Outages.Answered(pipeline.MongoDB, pipeline.Prober)
		}
		return
	}
	since := time.Now()
	if before := v.database.Load(); before != nil {
		since = before.since
	}
	if out, ok := errors.AsType[*mongodb.OutageError](err); ok {
		err = out.Err // the sentence already says that this was a ping
	}
	v.database.Store(&outage{since, err})
	v.o.Outages.Failed(pipeline.MongoDB, pipeline.Prober, pipeline.Failure{
		Since: kafka.Now() - time.Since(since), Operation: "pinging", Cause: err.Error(),
	})
}

// failing returns which servers fail now.
func (v *View) failing(statuses []*pipeline.Status) [pipeline.Dependencies]bool {
	failing := [pipeline.Dependencies]bool{pipeline.MongoDB: v.database.Load() != nil}
	if look := v.parts.Load().Topics; look != nil {
		failing[pipeline.Kafka] = look().failing()
	}
	for _, s := range statuses {
		for of, failure := range s.Failures {
			failing[of] = failing[of] || failure != nil
		}
	}
	return failing
}

// sample adds the present state of the consumer to the hour.
func (v *View) sample() {
	s := seen{at: time.Now(), done: v.o.Metrics.Totals(), generation: -1}
	s.statuses = v.statuses(s.at)
	s.failing = v.failing(s.statuses)
	if g := v.parts.Load().Group.Status().Generation; g != nil {
		s.generation = g.ID
	}
	v.hour.note(s)
}

// countOutages adds the time since the last check to the servers that fail now.
func (v *View) countOutages() {
	for of, fails := range v.failing(v.parts.Load().Consumer.Statuses()) {
		if fails {
			v.outages.WithLabelValues(pipeline.Dependency(of).String()).Add(pingInterval.Seconds())
		}
	}
}

// gauges are the metrics taken from the snapshots, by their names without the prefix.
var gauges = func() map[string]*prometheus.Desc {
	all := map[string]*prometheus.Desc{}
	describe := func(name, help string, labels ...string) {
		all[name] = prometheus.NewDesc("waterwheel_"+name, help, labels, nil)
	}
	ofPartition := func(name, help string) { describe(name, help, "topic", "partition") }
	ofPartition("lag_records", "Records that are not committed yet: the high watermark minus the committed offset.")
	ofPartition("freshness_seconds", "Age of the oldest record that is not durable, 0 when every record is durable.")
	ofPartition("lag_seconds", "Time between the oldest record read that is not durable and the newest record read.")
	ofPartition("claim_wait_seconds", "Remaining wait until writes of the previous owner can no longer arrive.")
	ofPartition("schema_wait_seconds", "How long the next record has waited for its schema, 0 if it does not wait.")
	ofPartition("send_limit_bytes", "Maximum bytes of writes sent to MongoDB at a time, adjusted to its recent response times.")
	ofPartition("oldest_pending_seconds", "How long the oldest measurement has waited for a flush.")
	ofPartition("open_segments", "Open segments, which are not compacted into buckets yet.")
	ofPartition("open_segment_measurements", "Measurements in open segments.")
	ofPartition("oldest_open_segment_seconds", "Time since this consumer wrote or found the oldest open segment.")
	ofPartition("fetch_paused", "1 while fetching is paused because too much data waits to be processed.")
	describe("partitions_stopped", "Stopped partitions, which wait for an operator to act, by reason.", "reason")
	describe("memory_bytes", "Memory that counts towards the budget, by kind.", "kind")
	describe("memory_limit_bytes", "The memory budget for all kinds together.")
	describe("series", "Series in memory.")
	describe("open_buckets", "Open buckets in memory.")
	describe("archived_buckets", "Archived buckets in memory.")
	describe("active_buckets", "Open and archived buckets in memory.")
	describe("unknown_writes", "Writes that were sent to MongoDB and whose outcome is unknown.")
	describe("bucket_fill_ratio", "Measurements stored per bucket written, as a fraction of BUCKET_MAX_COUNT.")
	return all
}()

// Describe sends the descriptions of all metrics that Collect may send. The label values depend on the assignment.
func (v *View) Describe(out chan<- *prometheus.Desc) {
	v.outages.Describe(out)
	v.overSeries.Describe(out)
	for _, desc := range gauges {
		out <- desc
	}
}

// Collect sends the counters of the view, and gauges taken from the snapshots. The gauges of a partition vanish with the
// partition.
func (v *View) Collect(out chan<- prometheus.Metric) {
	v.outages.Collect(out)
	v.overSeries.Collect(out)
	now := time.Now()
	v.collect(out, v.statuses(now), now)
}

func (v *View) collect(out chan<- prometheus.Metric, statuses []*pipeline.Status, now time.Time) {
	send := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(gauges[name], prometheus.GaugeValue, value, labels...)
	}
	sum := func(value func(*pipeline.Status) int64) float64 {
		var sum int64
		for _, s := range statuses {
			sum += value(s)
		}
		return float64(sum)
	}
	stops := map[string]int{}
	for _, s := range statuses {
		ofPartition(s, now, send)
		if s.Stopped != nil {
			stops[s.Stopped.Reason]++
		}
	}
	for reason, n := range stops {
		send("partitions_stopped", float64(n), reason)
	}
	for kind, bytes := range map[string]float64{
		"fetch":            float64(v.o.Budget.Fetching()),
		"buckets":          sum(func(s *pipeline.Status) int64 { return s.BucketBytes }),
		"pending":          sum(func(s *pipeline.Status) int64 { return s.PendingBytes }),
		"stored_positions": sum(func(s *pipeline.Status) int64 { return s.StoredBytes }),
		"dead_letters":     sum(func(s *pipeline.Status) int64 { return s.DeadLetterBytes }),
		"tracking":         sum(func(s *pipeline.Status) int64 { return s.TrackingBytes }),
		"reserved":         sum(func(s *pipeline.Status) int64 { return s.ReservedBytes }),
	} {
		send("memory_bytes", bytes, kind)
	}
	send("memory_limit_bytes", float64(v.o.Budget.Limit()))
	open := sum(func(s *pipeline.Status) int64 { return s.Buckets.OpenBuckets })
	archived := sum(func(s *pipeline.Status) int64 { return s.Buckets.ArchivedBuckets })
	send("series", sum(func(s *pipeline.Status) int64 { return s.Buckets.Series }))
	send("open_buckets", open)
	send("archived_buckets", archived)
	send("active_buckets", open+archived)
	send("unknown_writes", sum(func(s *pipeline.Status) int64 { return int64(s.Unknown) }))
	stored := sum(func(s *pipeline.Status) int64 {
		return s.Buckets.MeasurementsCommitted - s.Buckets.MeasurementsInSegments
	})
	written := sum(func(s *pipeline.Status) int64 { return s.Buckets.BucketInserts + s.Buckets.BucketsReopened })
	if written > 0 && v.o.MaxCount > 0 {
		send("bucket_fill_ratio", stored/written/float64(v.o.MaxCount))
	}
}

// ofPartition sends the gauges of one partition.
func ofPartition(s *pipeline.Status, now time.Time, send func(name string, value float64, labels ...string)) {
	number := strconv.Itoa(int(s.Number))
	one := func(name string, value float64) { send(name, value, s.Topic, number) }
	if lag, known := s.Lag(); known {
		one("lag_records", float64(lag))
	}
	if age, known := s.Freshness(now); known {
		one("freshness_seconds", age.Seconds())
	}
	behind := int64(0)
	if s.Undurable < s.Position && s.UndurableTime > 0 {
		behind = max(0, s.Newest-s.UndurableTime)
	}
	one("lag_seconds", float64(behind)/1000)
	one("claim_wait_seconds", s.ClaimWait.Seconds())
	one("schema_wait_seconds", s.SchemaWait.Seconds())
	one("send_limit_bytes", float64(s.SendBytes))
	one("oldest_pending_seconds", s.PendingFor.Seconds())
	one("open_segments", float64(s.OpenSegments))
	one("open_segment_measurements", float64(s.InSegments))
	one("oldest_open_segment_seconds", s.SegmentAge.Seconds())
	one("fetch_paused", map[bool]float64{true: 1}[s.Paused != ""])
}
