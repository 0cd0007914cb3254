package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/bench"
	"waterwheel/e2e/harness"
)

// Result is what was measured of one case. Figures a measurement are of the time after the warm-up, of what was stored in it.
type Result struct {
	Case
	// Produced and Stored are measurements a second after the warm-up.
	Produced float64 `json:"produced"`
	Stored   float64 `json:"stored"`
	// CPU and ServerCPU are microseconds of processor time a measurement, of the consumer and of MongoDB; of the latter nil: not
	// known. The probes' looks are in the server's.
	CPU       float64  `json:"cpu_us"`
	ServerCPU *float64 `json:"server_cpu_us,omitempty"`
	// Writes are inserts and updates of buckets a second, PerWrite the measurements in one.
	Writes   float64 `json:"writes"`
	PerWrite float64 `json:"measurements_per_write"`
	// Density is measurements a bucket at the end, without the probes'; Bytes those of the buckets a measurement, Disk and Indexes what they take;
	// 0: the server does not tell.
	Density   float64   `json:"density"`
	Bytes     float64   `json:"data_bytes"`
	Disk      float64   `json:"disk_bytes"`
	Indexes   float64   `json:"index_bytes"`
	Freshness Freshness `json:"freshness"`
}

// Behind tells that the consumer, or the producer, did not keep up with the rate.
func (r Result) Behind() bool { return r.Stored < 0.9*r.Total() || r.Produced < 0.9*r.Total() }

// warmUp is the part of the time that is not measured: the consumer starts, and finds no bucket of any series.
const warmUp = 3

// Measure runs a consumer and a producer of the case's rate for so long, and leaves nothing behind.
func Measure(ctx context.Context, b *bench.Bench, c Case, lasting time.Duration) (r Result, err error) {
	l := bench.Base()
	l.Series, l.Records = c.Series, c.Series
	name := fmt.Sprintf("live-%x", time.Now().UnixNano())
	after := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := b.Servers.CreateTopic(ctx, name, l.Partitions); err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, b.Servers.DeleteTopics(after, name, name+".dlq"), b.Servers.DropDatabase(after, name))
	}()
	client, err := mongo.Connect(options.Client().ApplyURI(b.Servers.MongoURI))
	if err != nil {
		return r, fmt.Errorf("connecting to MongoDB: %w", err)
	}
	defer client.Disconnect(after)
	kafka, err := bench.NewProducer(b.Servers.Brokers, name, l)
	if err != nil {
		return r, err
	}
	defer kafka.Close()
	m := &measuring{
		bench: b, buckets: client.Database(name).Collection(name + ".buckets"),
		producer: &producer{client: kafka, maker: bench.NewMaker(l), load: l, total: c.Total(), failed: func(err error) { cancel(err) }},
	}
	settings := harness.Settings{
		"KAFKA_BROKERS": b.Servers.Brokers, "KAFKA_TOPICS": name, "KAFKA_GROUP_ID": name,
		"MONGODB_URI": b.Servers.MongoURI, "MONGODB_DATABASE": name, "LOG_FORMAT": "text",
	}
	for name, value := range b.Settings {
		settings[name] = value
	}
	if m.consumer, err = harness.Start(b.Consumer, settings); err != nil {
		return r, err
	}
	defer m.consumer.Kill()
	r, err = m.run(ctx, c, lasting)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	return r, err
}

// measuring is one case under way.
type measuring struct {
	bench    *bench.Bench
	consumer *harness.Consumer
	producer *producer
	buckets  *mongo.Collection
}

func (m *measuring) run(ctx context.Context, c Case, lasting time.Duration) (Result, error) {
	r := Result{Case: c}
	if err := m.consumer.AwaitReady(ctx); err != nil {
		return r, err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	probes := newProbes(m.producer, m.buckets, m.producer.load.Partitions)
	for _, do := range []func(context.Context){m.producer.run, probes.write, probes.watch} {
		m.producer.running.Go(func() { do(work) })
	}
	defer m.producer.running.Wait()
	defer stop()
	if err := m.pause(ctx, lasting/warmUp); err != nil {
		return r, err
	}
	before, err := m.look(ctx)
	if err != nil {
		return r, err
	}
	probes.begin()
	if err := m.pause(ctx, lasting-lasting/warmUp); err != nil {
		return r, err
	}
	now, err := m.look(ctx)
	if err != nil {
		return r, err
	}
	r.Freshness = probes.freshness()
	stop()
	m.producer.running.Wait()
	r.between(before, now)
	return r, m.stored(ctx, &r)
}

// pause waits, unless the consumer ends.
func (m *measuring) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-m.consumer.Ended():
		return fmt.Errorf("the consumer ended by itself:\n%s", m.consumer.Log())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// moment is what is known at one moment, from the beginning.
type moment struct {
	at                       time.Time
	produced, stored, writes float64
	cpu, server              time.Duration
	serverKnown              bool
}

func (m *measuring) look(ctx context.Context) (moment, error) {
	metrics, err := m.consumer.Metrics(ctx)
	if err != nil {
		return moment{}, err
	}
	now := moment{
		at: time.Now(), produced: float64(m.producer.written.Load()), stored: metrics.Sum("waterwheel_measurements_stored_total"),
		writes: metrics.Sum("waterwheel_bucket_commits_total"),
	}
	now.cpu, _ = bench.CPUOf(ctx, int32(m.consumer.PID()))
	now.server, now.serverKnown = bench.CPUOf(ctx, m.bench.ServerPID(ctx))
	return now, nil
}

// between fills in what happened between two moments.
func (r *Result) between(before, now moment) {
	seconds, stored, writes := now.at.Sub(before.at).Seconds(), now.stored-before.stored, now.writes-before.writes
	r.Produced, r.Stored, r.Writes = (now.produced-before.produced)/seconds, stored/seconds, writes/seconds
	each := func(d time.Duration) float64 {
		if stored == 0 {
			return 0
		}
		return float64(d) / float64(time.Microsecond) / stored
	}
	r.CPU = each(now.cpu - before.cpu)
	if now.serverKnown && before.serverKnown {
		server := each(now.server - before.server)
		r.ServerCPU = &server
	}
	if writes > 0 {
		r.PerWrite = stored / writes
	}
}

// stored ends the consumer, which writes what waits, and asks what all takes.
func (m *measuring) stored(ctx context.Context, r *Result) error {
	if code, err := m.consumer.Terminate(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("the consumer ended with code %d:\n%s", code, m.consumer.Log()), err)
	}
	size := bench.SizeOf(ctx, m.buckets)
	cursor, err := m.buckets.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "control.count", Value: 1}, {Key: "meta", Value: 1}}))
	if err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	defer cursor.Close(ctx)
	measurements, buckets, probed := 0.0, 0.0, 0.0
	for cursor.Next(ctx) {
		n, _ := cursor.Current.Lookup("control", "count").AsInt64OK()
		if name, _ := cursor.Current.Lookup("meta", "sensor").StringValueOK(); strings.HasPrefix(name, probePrefix) {
			probed += float64(n)
			continue
		}
		measurements, buckets = measurements+float64(n), buckets+1
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	if measurements > 0 {
		r.Density = measurements / buckets
		all := measurements + probed
		r.Bytes, r.Disk, r.Indexes = float64(size.Data)/all, float64(size.Disk)/all, float64(size.Indexes)/all
	}
	return nil
}
