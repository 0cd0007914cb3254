package reading

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
	"waterwheel/internal/collection"
	"waterwheel/internal/keeper"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
	"waterwheel/sink"
)

// These are the ways to compute totals. FromMeasurements uses no rollups.
const (
	FromMeasurements = "measurements"
	fromRows         = "rows"
)

// Building is the cost of building the rows of all levels from stored measurements.
type Building struct {
	Measurements int
	Rows         int64 // of all levels
	Time         time.Duration
	Own          time.Duration  // processor time of the building process
	Server       *time.Duration // Nil means unknown.
}

// MeasureTotals stores a load in a database of its own, and builds its rollups. It queries totals from rows and from
// measurements, and then removes the database.
func MeasureTotals(ctx context.Context, uri string, l Load) (b Building, figures []Figure, err error) {
	if l.Flushes > 0 {
		return b, nil, errors.New("totals are measured without segments: leave -stored-flushes out")
	}
	s, done, err := storeApart(ctx, uri, "bench_totals", l, false)
	if err != nil {
		return b, nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	m := newMeter(ctx, uri, l.Repeat)
	if b, err = s.build(ctx, uri, m); err != nil {
		return b, nil, fmt.Errorf("building rollups: %w", err)
	}
	series, err := reader.Open(ctx, s.database, oursName)
	if err != nil {
		return b, nil, err
	}
	for _, q := range s.totals() {
		for _, way := range []string{FromMeasurements, fromRows} {
			asked := query{name: q.name, want: q.windows}
			of := q.query
			of.Exact = way == FromMeasurements
			f, err := m.measure(ctx, asked, func() (int, error) { return counted(series.Totals(ctx, of)) })
			if err != nil {
				return b, figures, fmt.Errorf("%s, from %s: %w", q.name, way, err)
			}
			f.Way = way
			figures = append(figures, f)
		}
	}
	return b, figures, nil
}

// build builds the rollups of all levels, and records that they cover all measurements.
func (s *stored) build(ctx context.Context, uri string, m *meter) (b Building, err error) {
	d, err := mongodb.Open(ctx, mongodb.Options{URI: uri, Database: s.database.Name(), WriteTimeout: time.Minute})
	if err != nil {
		return b, err
	}
	defer d.Close(context.WithoutCancel(ctx))
	levels, err := rollup.ParseLevels("1m,1h,1d")
	if err != nil {
		return b, err
	}
	if err := collection.Of(d, oursName).SetupRollups(ctx, levels, rollup.Rules{}, collection.Settings{}); err != nil {
		return b, err
	}
	rollups := sink.RollupsOf(d, oursName)
	defer rollups.Close()
	command, err := keeper.NewCommand(ctx, rollups)
	if err != nil {
		return b, err
	}
	server, known := bench.CPUOf(ctx, m.pid)
	own, begun := bench.OwnCPU(), time.Now()
	if err := command.Build(ctx, keeper.Range{From: s.begin, To: s.end()}, false, func(keeper.Built) {}); err != nil {
		return b, err
	}
	b.Time, b.Own = time.Since(begun), bench.OwnCPU()-own
	if used, ok := m.used(ctx, server, b.Time); known && ok {
		b.Server = &used
	}
	b.Measurements = s.load.Series * s.load.Hours * int(time.Hour/s.load.Step)
	for _, level := range levels {
		n, err := rowsOf(ctx, s.database.Collection(level.SeriesName(oursName)+timeseries.BucketsSuffix))
		if err != nil {
			return b, err
		}
		b.Rows += n
	}
	if err := collection.Of(d, oursName).WholeSince(ctx, time.Time{}); err != nil {
		return b, err
	}
	return b, s.passed(ctx)
}

// rowsOf counts the rows of a level.
func rowsOf(ctx context.Context, c *mongo.Collection) (n int64, err error) {
	cursor, err := c.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: timeseries.PathCount, Value: 1}}))
	if err != nil {
		return 0, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		rows, _ := cursor.Current.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
		n += rows
	}
	return n, cursor.Err()
}

// passed stores the watermark of the only partition, as a pass over all measurements leaves it.
func (s *stored) passed(ctx context.Context) error {
	mark := rollup.NewWatermark([16]byte{1}, int64(s.load.Series*s.load.Hours)*int64(time.Hour/s.load.Step))
	at := time.Now()
	mark.At = &at
	_, err := s.database.Collection(oursName+timeseries.PartitionsSuffix).InsertOne(ctx, bson.D{
		{Key: timeseries.FieldID, Value: "readings/0"},
		{Key: timeseries.FieldTopicID, Value: mark.TopicID},
		{Key: rollup.FieldWatermarks, Value: []rollup.Watermark{mark}},
	})
	return err
}

// totalsQuery is a query for totals.
type totalsQuery struct {
	name    string
	query   reader.TotalsQuery
	windows int // number of windows in the answer
}

// totals returns the queries for totals of the stored measurements.
func (s *stored) totals() []totalsQuery {
	whole := bson.D{{Key: timeseries.FieldMeta, Value: meta(s.load.Series / 3)}}
	days := (s.load.Hours + 23) / 24
	ask := func(name string, q reader.Query, every reader.Step, windows int) totalsQuery {
		q.From, q.To = s.begin, s.end()
		return totalsQuery{name, reader.TotalsQuery{Query: q, Every: every, Aggregations: []reader.Aggregation{reader.Mean, reader.Max}}, windows}
	}
	return []totalsQuery{
		ask(fmt.Sprintf("one series, %d hours by hour", s.load.Hours), reader.Query{Meta: whole}, reader.Step{Duration: time.Hour}, s.load.Hours),
		ask(fmt.Sprintf("one series, %d days by day", days), reader.Query{Meta: whole}, reader.Step{Days: 1}, days),
		ask(fmt.Sprintf("all %d series, %d days by day", s.load.Series, days), reader.Query{}, reader.Step{Days: 1}, days*s.load.Series),
	}
}

// String returns the total cost, and the cost per measurement.
func (b Building) String() string {
	each := func(d time.Duration) float64 {
		return float64(d.Nanoseconds()) / 1000 / float64(max(b.Measurements, 1))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d measurements became %d rows in %.2f s: %.0f a second, %.2f µs of own CPU each", b.Measurements, b.Rows, b.Time.Seconds(),
		float64(b.Measurements)/b.Time.Seconds(), each(b.Own))
	if b.Server != nil {
		fmt.Fprintf(&text, ", %.2f µs of the server's", each(*b.Server))
	}
	return text.String()
}
