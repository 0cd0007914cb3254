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
	"waterwheel/internal/timeseries"
)

// Result is the result of one case, stored in one way.
type Result struct {
	Case
	Way Way `json:"way"`
	// Produced and Stored are in measurements a second, without the warm-up. Compacted counts those moved from segments into
	// buckets.
	Produced  float64 `json:"produced"`
	Stored    float64 `json:"stored"`
	Compacted float64 `json:"compacted,omitempty"`
	// CPU and ServerCPU are processor times per stored measurement, in microseconds, of the storing process and of MongoDB. A nil
	// ServerCPU is unknown. No probe queries run during this part.
	CPU       float64  `json:"cpu_us"`
	ServerCPU *float64 `json:"server_cpu_us,omitempty"`
	// Writes is the number of writes with new measurements per second (for Plain the number of calls). PerWrite is their size in
	// measurements.
	Writes   float64 `json:"writes"`
	PerWrite float64 `json:"measurements_per_write"`
	// Density is the number of measurements per bucket at the end, without probes and segments. InSegments is the number of
	// measurements in segments. Bytes, Disk and Indexes are bytes per measurement. Zero means unknown.
	Density    float64   `json:"density"`
	InSegments int64     `json:"inSegments,omitempty"`
	Bytes      float64   `json:"data_bytes"`
	Disk       float64   `json:"disk_bytes"`
	Indexes    float64   `json:"index_bytes"`
	Freshness  Freshness `json:"freshness"`
	// Trouble is the error that prevented a complete measurement.
	Trouble string `json:"trouble,omitempty"`
}

// Behind reports whether the storing process or the producer did not keep up with the rate.
func (r Result) Behind() bool { return r.Stored < 0.9*r.Total() || r.Produced < 0.9*r.Total() }

// These divide the time of a case into parts. In the first the process starts, and finds no bucket of any series. The second
// measures its work. The third measures freshness, with queries for new measurements.
const (
	warmUp = 4 // a fourth of the time
	worked = 2 // half of the time
	looked = 4 // a fourth of the time
)

// These bound the steps before and after, because a server that makes no progress must not block the other cases.
const (
	starting = 3 * time.Minute
	ending   = 3 * time.Minute
	counting = 3 * time.Minute
	dropping = 3 * time.Minute
	seeing   = 20 * time.Second // time to see the last records
)

// Measure runs a storing process and a producer with the rate of the case, for the given time, and removes their data. If the
// case fails, the result holds the known figures and Trouble. A nil result means that no figure is known.
func Measure(ctx context.Context, b *bench.Bench, c Case, way Way, lasting time.Duration) (r *Result, err error) {
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
		after, cancel := context.WithTimeout(after, dropping)
		defer cancel()
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
	p := &producer{client: kafka, maker: bench.NewMaker(l), load: l, total: c.Total(), failed: func(err error) { cancel(err) }}
	m := &measuring{
		bench: b, of: c, way: way, database: client.Database(name), topic: name, producer: p,
		probes: newProbes(p, way.looks(client.Database(name), name), l.Partitions),
	}
	if m.store, err = way.start(ctx, b, name, lasting); err != nil {
		return r, err
	}
	defer m.store.Kill()
	err = m.run(ctx, lasting)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	if err != nil && m.result != nil {
		m.result.Trouble, _, _ = strings.Cut(err.Error(), "\n")
		err = nil
	}
	return m.result, err
}

// measuring is a case in progress.
type measuring struct {
	bench    *bench.Bench
	of       Case
	way      Way
	database *mongo.Database
	topic    string
	producer *producer
	probes   *probes
	store    store
	result   *Result // Nil means that there is no result yet.
}

func (m *measuring) run(ctx context.Context, lasting time.Duration) error {
	begun, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	if err := m.store.ready(begun); err != nil {
		return err
	}
	if err := m.produce(ctx, lasting); err != nil {
		return err
	}
	ended, cancel := context.WithTimeout(ctx, ending)
	defer cancel()
	if code, err := m.store.Terminate(ended); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("it ended with code %d when asked to:\n%s", code, m.store.Log()), err)
	}
	counted, cancel := context.WithTimeout(ctx, counting)
	defer cancel()
	return m.density(counted)
}

// produce measures while the producer writes.
func (m *measuring) produce(ctx context.Context, lasting time.Duration) error {
	work, stop := context.WithCancel(ctx)
	defer m.producer.running.Wait()
	defer stop()
	for _, do := range []func(context.Context){m.producer.run, m.probes.write} {
		m.producer.running.Go(func() { do(work) })
	}
	if err := m.pause(ctx, lasting/warmUp); err != nil {
		return err
	}
	before, err := m.look(ctx)
	if err != nil {
		return err
	}
	if err := m.pause(ctx, lasting/worked); err != nil {
		return err
	}
	now, err := m.look(ctx)
	if err != nil {
		return err
	}
	m.result = &Result{Case: m.of, Way: m.way}
	m.result.between(before, now)
	m.probes.begin(time.Now())
	m.producer.running.Go(func() { m.probes.watch(work) })
	defer func() { m.result.Freshness = m.probes.freshness() }()
	if err := m.pause(ctx, lasting/looked); err != nil {
		return err
	}
	for deadline := time.Now().Add(seeing); !m.probes.end() && time.Now().Before(deadline); {
		if err := m.pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for d. It returns an error if the process ends.
func (m *measuring) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-m.store.Ended():
		return fmt.Errorf("it ended by itself:\n%s", m.store.Log())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// moment holds the totals since the start at one moment.
type moment struct {
	counts
	at          time.Time
	produced    float64
	cpu, server time.Duration
	serverKnown bool
}

func (m *measuring) look(ctx context.Context) (moment, error) {
	counts, err := m.store.counts(ctx)
	if err != nil {
		return moment{}, err
	}
	now := moment{counts: counts, at: time.Now(), produced: float64(m.producer.written.Load())}
	now.cpu, _ = bench.CPUOf(ctx, int32(m.store.PID()))
	now.server, now.serverKnown = bench.CPUOf(ctx, m.bench.ServerPID(ctx))
	return now, nil
}

// between sets the figures for the time between two moments.
func (r *Result) between(before, now moment) {
	seconds, stored, writes := now.at.Sub(before.at).Seconds(), now.stored-before.stored, now.writes-before.writes
	r.Produced, r.Stored, r.Writes = (now.produced-before.produced)/seconds, stored/seconds, writes/seconds
	r.Compacted = (now.compacted - before.compacted) / seconds
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

// density measures the size of the collection and the number of measurements per bucket.
func (m *measuring) density(ctx context.Context) error {
	r := m.result
	if r.Way == Plain {
		size := bench.SizeOf(ctx, m.database.Collection(m.topic))
		r.sized(size, float64(size.Documents))
		return nil
	}
	collection := m.database.Collection(m.topic + timeseries.BucketsSuffix)
	fields := bson.D{{Key: timeseries.PathCount, Value: 1}, {Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.PathSegment, Value: 1}}
	cursor, err := collection.Find(ctx, bson.D{}, options.Find().SetProjection(fields))
	if err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	defer cursor.Close(ctx)
	var t tally
	for cursor.Next(ctx) {
		t.add(cursor.Current)
	}
	if err := cursor.Err(); err != nil {
		return fmt.Errorf("counting what is stored: %w", err)
	}
	if r.InSegments = t.inSegments; t.buckets > 0 {
		r.Density = float64(t.measurements) / float64(t.buckets)
	}
	r.sized(bench.SizeOf(ctx, collection), float64(t.measurements+t.probed+t.inSegments))
	return nil
}

func (r *Result) sized(size bench.Size, measurements float64) {
	if measurements > 0 {
		r.Bytes, r.Disk, r.Indexes = float64(size.Data)/measurements, float64(size.Disk)/measurements, float64(size.Indexes)/measurements
	}
}

// tally counts buckets, measurements in them without probes, probes, and measurements in segments that have not ended.
type tally struct{ buckets, measurements, probed, inSegments int64 }

func (t *tally) add(document bson.Raw) {
	n, _ := document.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
	if about, segment := document.Lookup(timeseries.FieldControl, timeseries.FieldSegment).DocumentOK(); segment {
		if _, ended := about.Lookup(timeseries.FieldVisibleUntil).DateTimeOK(); !ended {
			t.inSegments += n
		}
		return
	}
	if name, _ := document.Lookup(timeseries.FieldMeta, sensorField).StringValueOK(); strings.HasPrefix(name, probePrefix) {
		t.probed += n
		return
	}
	t.measurements, t.buckets = t.measurements+n, t.buckets+1
}
