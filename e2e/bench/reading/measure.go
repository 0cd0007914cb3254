package reading

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/bench"
	"waterwheel/reader"
)

// Figure is the cost of a query in one way.
type Figure struct {
	Query, Way string
	Time       time.Duration
	CPU        *time.Duration // of the server, minus its time when idle. Nil means unknown.
}

// These are the ways. Native is the way with the server's native time series.
const (
	Native = "native"
	view   = "view"
	ours   = "reader"
)

// Measure stores a load in a database of its own, runs each query in each way, and removes the database.
func Measure(ctx context.Context, uri string, l Load) (figures []Figure, err error) {
	s, done, err := storeApart(ctx, uri, "bench_reading", l, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	database := s.database
	series, err := reader.Open(ctx, database, oursName)
	if err != nil {
		return nil, err
	}
	m := newMeter(ctx, uri, l.Repeat)
	for _, q := range s.queries() {
		ways := map[string]func() (int, error){
			Native: func() (int, error) { return viaServer(ctx, q, database.Collection(nativeName)) },
			view:   func() (int, error) { return viaServer(ctx, q, database.Collection(oursName)) },
			ours:   func() (int, error) { return counted(q.reader(ctx, series)) },
		}
		for _, way := range s.ways(ctx) {
			f, err := m.measure(ctx, q, ways[way])
			if err != nil {
				return figures, fmt.Errorf("%s, %s: %w", q.name, way, err)
			}
			f.Way = way
			figures = append(figures, f)
		}
	}
	return figures, nil
}

// storeApart stores a load in a database of its own, whose name begins with prefix. done drops the database. After an error it is
// already dropped.
func storeApart(ctx context.Context, uri, prefix string, l Load, native bool) (s *stored, done func() error, err error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to MongoDB: %w", err)
	}
	database := client.Database(fmt.Sprintf("%s_%d", prefix, time.Now().UnixNano()))
	done = func() error {
		after := context.WithoutCancel(ctx)
		return errors.Join(database.Drop(after), client.Disconnect(after))
	}
	if s, err = store(ctx, uri, database, l, native); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return s, done, nil
}

// ways returns the ways that this server supports.
func (s *stored) ways(ctx context.Context) (all []string) {
	if s.native {
		all = append(all, Native)
	}
	if names, err := s.database.ListCollectionNames(ctx, map[string]string{"name": oursName}); err == nil && len(names) > 0 {
		all = append(all, view)
	}
	return append(all, ours)
}

// meter measures the processor time of the server.
type meter struct {
	pid    int32
	idle   float64       // share of a core that the server uses without queries
	repeat time.Duration // how long a query is repeated
}

// idleFor is how long the idle server is measured.
const idleFor = 3 * time.Second

func newMeter(ctx context.Context, uri string, repeat time.Duration) *meter {
	m := &meter{repeat: repeat}
	address := strings.TrimPrefix(uri, "mongodb://")
	if at := strings.IndexAny(address, "/?"); at >= 0 {
		address = address[:at]
	}
	m.pid = bench.PIDOf(ctx, address[strings.LastIndexByte(address, '@')+1:])
	begun, known := bench.CPUOf(ctx, m.pid)
	if !known {
		return m
	}
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
	}
	if used, ok := bench.CPUOf(ctx, m.pid); ok {
		m.idle = float64(used-begun) / float64(idleFor)
	}
	return m
}

// leastTimes is how often a query is repeated at least.
const leastTimes = 2

// measure runs a query once to fill the caches, and then repeatedly.
func (m *meter) measure(ctx context.Context, q query, ask func() (int, error)) (f Figure, err error) {
	f.Query = q.name
	if n, err := ask(); err != nil {
		return f, err
	} else if n != q.want {
		return f, fmt.Errorf("%d measurements came, not %d", n, q.want)
	}
	before, known := bench.CPUOf(ctx, m.pid)
	begun := time.Now()
	times := time.Duration(0)
	for times < leastTimes || time.Since(begun) < m.repeat {
		if _, err := ask(); err != nil {
			return f, err
		}
		times++
	}
	took := time.Since(begun)
	f.Time = took / times
	if used, ok := m.used(ctx, before, took); known && ok {
		used /= times
		f.CPU = &used
	}
	return f, nil
}

// used returns the processor time of the server since before, minus the time of an idle server. It returns false if the time is
// unknown.
func (m *meter) used(ctx context.Context, before, took time.Duration) (time.Duration, bool) {
	after, ok := bench.CPUOf(ctx, m.pid)
	return max(after-before-time.Duration(m.idle*float64(took)), 0), ok
}

// Table returns figures as a Markdown table, with their ratios to the figures of the way base.
func Table(figures []Figure, base string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| query | way | server CPU | time | CPU / %s | time / %[1]s |\n|---|---|---|---|---|---|\n", base)
	var of Figure
	for _, f := range figures {
		if f.Way == base {
			of = f
		}
		cpu, ratio, times := "–", "–", "–"
		if f.CPU != nil {
			cpu = fmt.Sprintf("%.2f ms", f.CPU.Seconds()*1000)
		}
		if of.Query == f.Query {
			times = fmt.Sprintf("%.2f", float64(f.Time)/float64(of.Time))
			if f.CPU != nil && of.CPU != nil && *of.CPU > 0 {
				ratio = fmt.Sprintf("%.2f", float64(*f.CPU)/float64(*of.CPU))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.2f ms | %s | %s |\n", f.Query, f.Way, cpu, f.Time.Seconds()*1000, ratio, times)
	}
	return b.String()
}
