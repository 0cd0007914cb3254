package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/pipeline"
	"waterwheel/sink"
	"waterwheel/source"
)

const (
	pingInterval     = 2 * time.Second
	pingTimeout      = 2 * time.Second
	progressInterval = time.Minute
	// patience is how long something may fail before the consumer is not ready: a moved leader is no outage.
	patience = 5 * time.Second
)

// view is what pages and metrics show of the running consumer: snapshots of its parts, put together when asked for.
type view struct {
	group     string
	limit     int64
	seriesMax int64
	maxCount  int32 // BUCKET_MAX_COUNT
	budget    *pipeline.Budget
	letters   *recentLetters
	parts     atomic.Pointer[parts]
	database  atomic.Pointer[outage] // nil: MongoDB answers
	outages   *prometheus.CounterVec
	// overSeries counts the looks, once a minute, that found more series than seriesMax.
	overSeries prometheus.Counter
}

// parts exist once both ends are connected.
type parts struct {
	group    *source.Group
	consumer *pipeline.Consumer
	database *sink.Database
}

// outage is something that does not answer.
type outage struct {
	since time.Time
	err   error
}

func newView(c config.Config) *view {
	limit := int64(c.Memory.Limit)
	outages := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waterwheel_outage_seconds_total", Help: "Time in which a server did not do its part, as far as this consumer noticed.",
	}, []string{"of"})
	for _, of := range []pipeline.Server{pipeline.MongoDB, pipeline.Kafka, pipeline.DeadLetters} {
		outages.WithLabelValues(of.String())
	}
	overSeries := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waterwheel_series_max_exceeded_total", Help: "Looks, once a minute, that found more series in memory than SERIES_MAX.",
	})
	return &view{
		overSeries: overSeries, group: c.Kafka.GroupID, limit: limit, seriesMax: c.Memory.SeriesMax, maxCount: c.Bucket.MaxCount,
		budget: pipeline.NewBudget(limit / 100 * budgetPercent), letters: &recentLetters{}, outages: outages,
	}
}

func (v *view) attach(group *source.Group, consumer *pipeline.Consumer, database *sink.Database) {
	v.parts.Store(&parts{group, consumer, database})
}

// watch asks MongoDB for a sign of life, and writes a line of progress a minute, until the context ends.
func (v *view) watch(ctx context.Context, log *slog.Logger) {
	ping, progress := time.NewTicker(pingInterval), time.NewTicker(progressInterval)
	defer ping.Stop()
	defer progress.Stop()
	for {
		select {
		case <-ping.C:
			v.ping(ctx)
			v.countOutages()
		case <-progress.C:
			v.progress(log)
		case <-ctx.Done():
			return
		}
	}
}

func (v *view) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	err := v.parts.Load().database.Ping(ctx)
	if err == nil {
		v.database.Store(nil)
		return
	}
	out := outage{since: time.Now(), err: err}
	if before := v.database.Load(); before != nil {
		out.since = before.since
	}
	v.database.Store(&out)
}

// countOutages adds the time since the last look to the servers that fail now.
func (v *view) countOutages() {
	failing := map[pipeline.Server]bool{pipeline.MongoDB: v.database.Load() != nil}
	for _, s := range v.parts.Load().consumer.Statuses() {
		for of, trouble := range s.Troubles {
			failing[pipeline.Server(of)] = failing[pipeline.Server(of)] || trouble != nil
		}
	}
	for of, fails := range failing {
		if fails {
			v.outages.WithLabelValues(of.String()).Add(pingInterval.Seconds())
		}
	}
}

// progress is the one line a minute that says that the consumer lives, and warns about a wrong meta.
func (v *view) progress(log *slog.Logger) {
	var lag, series, open int64
	statuses := v.parts.Load().consumer.Statuses()
	for _, s := range statuses {
		lag += max(0, s.End-s.Position)
		series += s.Buckets.Series
		open += s.Buckets.OpenBuckets
	}
	log.Info("progress", "partitions", len(statuses), "lag", lag, "series", series, "open_buckets", open, "memory", v.budget.Total())
	if v.seriesMax > 0 && series > v.seriesMax {
		v.overSeries.Inc()
		log.Warn("more series than SERIES_MAX: is a value that changes with every event part of meta?", "series", series, "max", v.seriesMax,
			"varies_most", mostVaried(v.parts.Load().consumer.Metas(sampledSeries)))
	}
}

// status puts the snapshots together.
func (v *view) status() StatusView {
	view := StatusView{
		At: time.Now(), Version: version, Group: v.group, Generation: -1, Letters: v.letters.list(),
		Memory: MemoryView{Used: v.budget.Total(), Budget: v.budget.Limit(), Limit: v.limit},
	}
	p := v.parts.Load()
	if p == nil {
		view.NotReady = []string{"connecting to Kafka and MongoDB"}
		return view
	}
	membership := p.group.Status()
	view.Member = membership.MemberID
	if membership.Generation == nil {
		view.NotReady = append(view.NotReady, fmt.Sprintf("the group %s is not joined yet: %s", v.group, membership.State))
	} else {
		view.Generation = membership.Generation.ID
	}
	if out := v.database.Load(); out != nil {
		view.NotReady = append(view.NotReady, fmt.Sprintf("MongoDB does not answer since %s: %v", out.since.UTC().Format(time.RFC3339), out.err))
	}
	for _, s := range p.consumer.Statuses() {
		partition := partitionView(s, view.At)
		if s.Stopped != nil {
			view.NotReady = append(view.NotReady, fmt.Sprintf("partition %s/%d is stopped (%s): %s", s.Topic, s.Partition, s.Stopped.Reason, s.Stopped.Detail))
		}
		for of, trouble := range s.Troubles {
			if trouble != nil && source.Now()-trouble.Since > patience {
				view.NotReady = append(view.NotReady, fmt.Sprintf("partition %s/%d: %s fails since %s: %s", s.Topic, s.Partition,
					pipeline.Server(of).Name(), view.At.Add(trouble.Since-source.Now()).UTC().Format(time.RFC3339), trouble.Text))
			}
		}
		if s.Poisoned > 0 {
			view.Degraded = append(view.Degraded, fmt.Sprintf("partition %s/%d: %d records made the program fail and became letters (internal_error); please report the log's stack", s.Topic, s.Partition, s.Poisoned))
		}
		view.Partitions = append(view.Partitions, partition)
	}
	return view
}

func partitionView(s *pipeline.Status, now time.Time) PartitionView {
	view := PartitionView{
		Topic: s.Topic, Partition: s.Partition, State: s.Phase, Paused: s.Paused, Position: s.Position,
		End: s.End, Committed: s.Committed, Lag: -1, Pending: s.Pending, Flushing: s.Flushing,
		OpenBuckets: int(s.Buckets.OpenBuckets), MemoryBytes: s.Bytes(),
	}
	if s.Stopped != nil {
		view.Stopped = s.Stopped.Detail
	}
	if s.ClaimWait > 0 {
		view.State += " " + s.ClaimWait.Round(time.Second).String()
	}
	for _, trouble := range s.Troubles {
		if trouble != nil {
			view.Trouble = trouble.Text
		}
	}
	if s.Committed >= 0 {
		view.Lag = max(0, s.End-s.Committed)
	}
	if s.Durable > 0 {
		age := now.Sub(time.UnixMilli(s.Durable)).Seconds()
		view.FreshnessSeconds = &age
	}
	if s.LastFlush > 0 {
		view.LastFlush = now.Add(s.LastFlush - source.Now())
	}
	return view
}
