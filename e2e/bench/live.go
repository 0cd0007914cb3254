package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/naive"
	"waterwheel/internal/timeseries"
)

// Case is a number of series with Rate measurements a second each.
type Case struct {
	Series int
	Rate   float64
}

// Way is a way to store measurements that arrive at a fixed rate.
type Way string

// These are the ways.
const (
	Buckets  Way = "buckets"  // the consumer with SEGMENTS=off
	Segments Way = "segments" // the consumer with SEGMENTS=on
	Plain    Way = "plain"    // a naive consumer with a document per measurement
)

// Ways lists all ways, in the order of a case's rows.
var Ways = []Way{Buckets, Segments, Plain}

// settings returns the settings of a consumer that stores in this way. Compactions and deletions of segments come much earlier
// than by default, so that the measured time contains a fair share of them.
func (w Way) settings(lasting time.Duration) harness.Settings {
	if w == Buckets {
		return harness.Settings{"SEGMENTS": "off"}
	}
	ahead := max(lasting/10, 5*time.Second).String() // inserts of a busy server fit into five seconds
	return harness.Settings{
		"SEGMENTS": "on", "COMPACT_INTERVAL": (lasting / 4).Round(time.Millisecond).String(), "COMPACT_VISIBILITY_DELAY": ahead, "SEGMENT_RETENTION": ahead,
	}
}

// LiveResult is the result of one case, stored in one way.
type LiveResult struct {
	Case
	Way Way
	// Produced, Stored and Compacted are in measurements a second, without the warm-up. Writes is the number of writes with new
	// measurements a second (for Plain the number of calls).
	Produced, Stored, Compacted, Writes float64
	// CPU and ServerCPU are processor times per stored measurement, in microseconds, of the storing process and of MongoDB. Negative
	// means unknown. No query runs during this part.
	CPU, ServerCPU float64
	// Density is the number of measurements per bucket at the end, without probes and segments. Size is the size of the collection.
	Density   float64
	Size      Size
	Stable    int64 // measurements stored at the end
	Freshness Freshness
	// Failure is the error that prevented a complete measurement.
	Failure string
}

// Behind reports whether the storing process or the producer did not keep up with the rate.
func (r LiveResult) Behind() bool {
	return min(r.Stored, r.Produced) < 0.9*float64(r.Series)*r.Rate
}

// LiveTable returns the results as a Markdown table.
func LiveTable(results []LiveResult) string {
	rows := [][]string{{
		"series", "Hz each", "stored as", "stored/s", "compacted/s", "own CPU each", "server CPU each", "writes/s", "measurements a write",
		"a bucket", "bytes each: data / disk / indexes", "freshness, s: p50 / p90 / p99 / max",
	}}
	known := func(x float64) string {
		if x == 0 || math.IsNaN(x) {
			return unknown
		}
		return thousands(x)
	}
	failure := ""
	for _, r := range results {
		stored, bytes := thousands(r.Stored), unknown
		if r.Behind() {
			stored += " **behind**"
		}
		if n := float64(r.Stable); n > 0 {
			bytes = fmt.Sprintf("%.0f / %.0f / %.1f", r.Size.Data/n, r.Size.Disk/n, r.Size.Indexes/n)
		}
		rows = append(rows, []string{
			fmt.Sprint(r.Series), fmt.Sprint(r.Rate), string(r.Way), stored, known(r.Compacted), micros(r.CPU), micros(r.ServerCPU),
			known(r.Writes), known(r.Stored / r.Writes), known(r.Density), bytes, r.Freshness.String(),
		})
		if r.Failure != "" {
			failure += fmt.Sprintf("\n%d series of %g Hz, %s: %s.\n", r.Series, r.Rate, r.Way, r.Failure)
		}
	}
	return Table(rows) + failure
}

// patience bounds each step before and after, because a server that makes no progress must not block the other cases.
const patience = 3 * time.Minute

// live is a case in progress.
type live struct {
	*Bench
	name     string // of the topic, the database and the group
	database *mongo.Database
	process  *harness.Consumer
	maker    *Maker
	load     Load
	kafka    *kgo.Client
	written  atomic.Int64
	fail     context.CancelCauseFunc
	probes   *probes
	result   LiveResult
}

// Live runs a storing process and a producer with the rate of the case, and removes their data. In the first fourth of the time the
// process starts, and finds no bucket of any series. The half after it measures the work, and the last fourth the freshness, with
// queries. If the case fails, the result holds the figures so far and Failure.
func (b *Bench) Live(ctx context.Context, c Case, way Way, lasting time.Duration) (LiveResult, error) {
	l := &live{
		Bench: b, name: fmt.Sprintf("live-%x", time.Now().UnixNano()), load: Base(),
		result: LiveResult{Case: c, Way: way, CPU: -1, ServerCPU: -1},
	}
	l.load.Series, l.load.Records = c.Series, c.Series
	l.maker = NewMaker(l.load)
	ctx, l.fail = context.WithCancelCause(ctx)
	defer l.fail(nil)
	if err := b.Servers.CreateTopic(ctx, l.name, l.load.Partitions); err != nil {
		return l.result, err
	}
	err := check.WithDatabase(ctx, b.Servers.MongoURI, l.name, func(database *mongo.Database) error {
		l.database = database
		return l.run(ctx, lasting)
	})
	if err != nil {
		l.result.Failure, _, _ = strings.Cut(errors.Join(context.Cause(ctx), err).Error(), "\n")
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return l.result, errors.Join(b.Servers.DeleteTopics(after, l.name, l.name+".dlq"), b.Servers.DropDatabase(after, l.name))
}

func (l *live) run(ctx context.Context, lasting time.Duration) (err error) {
	if l.kafka, err = newProducer(l.Servers.Brokers, l.name); err != nil {
		return err
	}
	defer l.kafka.Close()
	l.probes = newProbes(l)
	if err := l.start(ctx, lasting); err != nil {
		return err
	}
	defer l.process.Kill()
	if err := l.measure(ctx, lasting); err != nil {
		return err
	}
	ended, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if code, err := l.process.Terminate(ended); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("it ended with code %d when asked to:\n%s", code, l.process.Log()), err)
	}
	return l.count(ended)
}

// start starts the storing process. The naive consumer inserts what came in half a second, as one would program it.
func (l *live) start(ctx context.Context, lasting time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.result.Way == Plain {
		if err := createPlain(ctx, l.database, l.name); err != nil {
			return err
		}
		l.process, err = l.startNaive(l.name, l.name, harness.Settings{naive.FetchWait: "500ms"})
		return err
	}
	if l.process, err = harness.Start(l.Consumer, l.settings(l.name, l.name, l.result.Way.settings(lasting))); err != nil {
		return err
	}
	return l.process.AwaitReady(ctx)
}

// measure measures while the producer writes.
func (l *live) measure(ctx context.Context, lasting time.Duration) error {
	var working sync.WaitGroup
	defer working.Wait()
	work, stop := context.WithCancel(ctx)
	defer stop()
	probing, stopProbes := context.WithCancel(work)
	defer stopProbes()
	working.Go(func() { l.produce(work) })
	working.Go(func() { l.probes.write(probing, work) })
	if err := pause(ctx, l.process, lasting/4); err != nil {
		return err
	}
	before, err := l.look(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, l.process, lasting/2); err != nil {
		return err
	}
	now, err := l.look(ctx)
	if err != nil {
		return err
	}
	l.result.between(before, now)
	l.probes.begin(time.Now())
	working.Go(func() {
		if err := l.probes.watch(work); err != nil && work.Err() == nil {
			l.fail(err)
		}
	})
	defer func() { l.result.Freshness = l.probes.freshness() }()
	if err := pause(ctx, l.process, lasting/4); err != nil {
		return err
	}
	stopProbes()
	for deadline := time.Now().Add(20 * time.Second); l.probes.freshness().Unseen > 0 && time.Now().Before(deadline); {
		if err := pause(ctx, l.process, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

// produce writes records of all series in turn at the rate of the case, with the present time, until the context ends.
func (l *live) produce(ctx context.Context) {
	harness.AtRate(ctx, float64(l.result.Series)*l.result.Rate, func(n int, now time.Time) {
		series := l.maker.Series(n)
		l.send(ctx, l.maker.Partition(series), l.maker.AppendAt(nil, sensor(series), series, n, now))
	})
}

// send writes one record.
func (l *live) send(ctx context.Context, partition int32, value []byte) {
	l.kafka.Produce(ctx, &kgo.Record{Partition: partition, Value: value}, func(_ *kgo.Record, err error) {
		switch {
		case err == nil:
			l.written.Add(1)
		case ctx.Err() == nil:
			l.fail(fmt.Errorf("writing a record: %w", err))
		}
	})
}

// moment holds the totals since the start at one moment.
type moment struct {
	at                                  time.Time
	produced, stored, writes, compacted float64
	cpu, server                         time.Duration
}

func (l *live) look(ctx context.Context) (m moment, err error) {
	if l.result.Way == Plain {
		stored, calls := naive.Progress(l.process.Log())
		m.stored, m.writes = float64(stored), float64(calls)
	} else {
		metrics, err := l.process.Metrics(ctx)
		if err != nil {
			return m, err
		}
		m.stored, m.writes = metrics.Sum("waterwheel_measurements_stored_total"), metrics.Sum("waterwheel_bucket_commits_total")
		m.compacted = metrics.Sum("waterwheel_measurements_compacted_total")
	}
	m.at, m.produced = time.Now(), float64(l.written.Load())
	m.cpu, m.server = cpuOf(ctx, l.process.PID()), cpuOf(ctx, mongoPID(ctx, l.Servers.MongoURI))
	return m, nil
}

// between sets the figures for the time between two moments.
func (r *LiveResult) between(before, now moment) {
	seconds, stored := now.at.Sub(before.at).Seconds(), now.stored-before.stored
	r.Produced, r.Stored = (now.produced-before.produced)/seconds, stored/seconds
	r.Writes, r.Compacted = (now.writes-before.writes)/seconds, (now.compacted-before.compacted)/seconds
	if stored > 0 {
		r.CPU = float64((now.cpu - before.cpu).Microseconds()) / stored
		if now.server >= 0 && before.server >= 0 {
			r.ServerCPU = float64((now.server - before.server).Microseconds()) / stored
		}
	}
}

// count measures the size of the collection, and counts the measurements in it and per bucket.
func (l *live) count(ctx context.Context) error {
	if l.result.Way == Plain {
		l.result.Size = sizeOf(ctx, l.database.Collection(l.name))
		l.result.Stable = l.result.Size.Documents
		return nil
	}
	collection := l.database.Collection(bucketsOf(l.name))
	l.result.Size = sizeOf(ctx, collection)
	fields := bson.D{{Key: timeseries.PathCount, Value: 1}, {Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.PathSegment, Value: 1}}
	cursor, err := collection.Find(ctx, bson.D{}, options.Find().SetProjection(fields))
	if err != nil {
		return fmt.Errorf("counting the stored measurements: %w", err)
	}
	defer cursor.Close(ctx)
	var buckets, inBuckets int64
	for cursor.Next(ctx) {
		d := cursor.Current
		n, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
		about, segment := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment).DocumentOK()
		if _, ended := about.Lookup(timeseries.FieldVisibleUntil).DateTimeOK(); segment && ended {
			continue
		}
		l.result.Stable += n
		name, _ := d.Lookup(timeseries.FieldMeta, "sensor").StringValueOK()
		if !segment && !slices.Contains(l.probes.names, name) {
			buckets, inBuckets = buckets+1, inBuckets+n
		}
	}
	if buckets > 0 {
		l.result.Density = float64(inBuckets) / float64(buckets)
	}
	return cursor.Err()
}
