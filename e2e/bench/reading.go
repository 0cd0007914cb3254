package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/e2e/check"
	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// Figure is the cost of a query in one way.
type Figure struct {
	Query, Way string
	Time       time.Duration
	CPU        time.Duration // of the server, minus its time when idle. Negative means unknown.
}

// FigureTable returns figures as a Markdown table, with their ratios to the first figure of the same query.
func FigureTable(figures []Figure) string {
	rows := [][]string{{"query", "way", "server CPU", "time", "ratio of CPU", "ratio of time"}}
	var base Figure
	for _, f := range figures {
		if f.Query != base.Query {
			base = f
		}
		cpu, ratio := unknown, unknown
		if f.CPU >= 0 {
			cpu = fmt.Sprintf("%.2f ms", f.CPU.Seconds()*1000)
			if base.CPU > 0 {
				ratio = fmt.Sprintf("%.2f", float64(f.CPU)/float64(base.CPU))
			}
		}
		rows = append(rows, []string{
			f.Query, f.Way, cpu, fmt.Sprintf("%.2f ms", f.Time.Seconds()*1000), ratio, fmt.Sprintf("%.2f", float64(f.Time)/float64(base.Time)),
		})
	}
	return Table(rows)
}

// RollupLevels is the setting with which Reading measures totals.
const RollupLevels = "ROLLUP_LEVELS"

// Reading has Waterwheel and Naive store the topic of a plan, and runs each query in each way that the server has: a native time
// series, the view, and package reader. With RollupLevels it measures totals instead, from measurements and from rows.
func (b *Bench) Reading(ctx context.Context, p Plan, repeat time.Duration) (figures []Figure, err error) {
	topic, err := Fill(ctx, b.Servers, p.Load)
	if err != nil {
		return nil, err
	}
	ours, plain := Drain{Waterwheel, 1}, Drain{Naive, 1}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
		defer cancel()
		err = errors.Join(err, b.Remove(after, topic, ours, plain), b.Servers.DeleteTopics(after, topic.Name, topic.Name+".dlq"))
	}()
	r, err := b.inTime(ctx, topic, ours, p.Patience)
	if err != nil || !r.Complete() {
		return nil, errors.Join(err, &IncompleteError{[]Result{r}})
	}
	m := newServerMeter(ctx, b.Servers.MongoURI, repeat)
	err = check.WithDatabase(ctx, b.Servers.MongoURI, ours.Database(topic), func(database *mongo.Database) error {
		series, err := reader.Open(ctx, database, topic.Name)
		if err != nil {
			return err
		}
		if b.Settings[RollupLevels] != "" {
			figures, err = m.totals(ctx, series, p.Load)
			return err
		}
		native, err := b.inTime(ctx, topic, plain, p.Patience)
		if err != nil {
			return err
		}
		for _, q := range p.Load.queries() {
			ways := []way{{"reader", func() (int, error) { return counted(q.reader(ctx, series)) }}}
			if database.Collection(topic.Name).FindOne(ctx, bson.D{}).Err() == nil { // otherwise this server has no views
				ways = append(ways, way{"view", func() (int, error) { return q.server(ctx, database.Collection(topic.Name)) }})
			}
			if native.Note == nativeNote {
				collection := database.Client().Database(plain.Database(topic)).Collection(topic.Name)
				ways = append(ways, way{"native", func() (int, error) { return q.server(ctx, collection) }})
			}
			slices.Reverse(ways)
			of, err := m.compare(ctx, q.name, q.want, ways)
			if err != nil {
				return err
			}
			figures = append(figures, of...)
		}
		return nil
	})
	return figures, err
}

// totals measures totals over all stored measurements.
func (m *serverMeter) totals(ctx context.Context, series *reader.Series, l Load) (figures []Figure, err error) {
	from, to := l.span()
	one := bson.D{{Key: "meta", Value: bson.D{{Key: "sensor", Value: sensor(l.Series / 3)}}}}
	for _, q := range []struct {
		name  string
		query reader.Query
		every reader.Step
	}{
		{"one series by hour", reader.Query{Meta: one}, reader.Step{Duration: time.Hour}},
		{"one series by day", reader.Query{Meta: one}, reader.Step{Days: 1}},
		{fmt.Sprintf("all %d series by day", l.Series), reader.Query{}, reader.Step{Days: 1}},
	} {
		q.query.From, q.query.To = from.Truncate(24*time.Hour), to.Truncate(24*time.Hour).Add(24*time.Hour)
		windows := 0
		var ways []way
		for _, exact := range []bool{true, false} {
			ask := reader.TotalsQuery{Query: q.query, Every: q.every, Aggregations: []reader.Aggregation{reader.Mean, reader.Max}, Exact: exact}
			name := map[bool]string{true: "measurements", false: "rows"}[exact]
			ways = append(ways, way{name, func() (int, error) { return counted(series.Totals(ctx, ask)) }})
		}
		if windows, err = ways[0].ask(); err != nil {
			return figures, err
		}
		of, err := m.compare(ctx, q.name, windows, ways)
		if err != nil {
			return figures, err
		}
		figures = append(figures, of...)
	}
	return figures, nil
}

// way is a way to ask a query. ask returns the number of elements in the answer.
type way struct {
	name string
	ask  func() (int, error)
}

// compare measures a query in several ways.
func (m *serverMeter) compare(ctx context.Context, name string, want int, ways []way) (figures []Figure, err error) {
	for _, w := range ways {
		f, err := m.measure(ctx, want, w.ask)
		if err != nil {
			return figures, fmt.Errorf("%s, %s: %w", name, w.name, err)
		}
		f.Query, f.Way = name, w.name
		figures = append(figures, f)
	}
	return figures, nil
}

// serverMeter measures the processor time of the server.
type serverMeter struct {
	pid    int
	idle   float64       // share of a core that the server uses without queries
	repeat time.Duration // how long a query is repeated
}

func newServerMeter(ctx context.Context, uri string, repeat time.Duration) *serverMeter {
	const idleFor = 3 * time.Second
	m := &serverMeter{pid: mongoPID(ctx, uri), repeat: repeat}
	if m.pid == 0 {
		return m
	}
	used := startMeter(ctx, m.pid)
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
	}
	m.idle = max(0, float64(used.used(ctx))/float64(idleFor))
	return m
}

// used returns the processor time of the server during took, minus the time of an idle server. Negative means unknown.
func (m *serverMeter) used(ctx context.Context, since meter, took time.Duration) time.Duration {
	if used := since.used(ctx); used >= 0 {
		return max(0, used-time.Duration(m.idle*float64(took)))
	}
	return -1
}

// measure runs a query once to fill the caches, and then repeatedly.
func (m *serverMeter) measure(ctx context.Context, want int, ask func() (int, error)) (f Figure, err error) {
	if n, err := ask(); err != nil {
		return f, err
	} else if n != want {
		return f, fmt.Errorf("the answer has %d elements, not %d", n, want)
	}
	before, begun, times := startMeter(ctx, m.pid), time.Now(), time.Duration(0)
	for times < 2 || time.Since(begun) < m.repeat {
		if _, err := ask(); err != nil {
			return f, err
		}
		times++
	}
	took := time.Since(begun)
	f.Time, f.CPU = took/times, m.used(ctx, before, took)
	if f.CPU > 0 {
		f.CPU /= times
	}
	return f, nil
}

// counted reads an answer of package reader to its end, and counts its elements.
func counted[T any](answer iter.Seq2[T, error]) (n int, err error) {
	for _, err := range answer {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// query is a query by package reader, and one for the view and the native time series. want is the number of measurements in the
// answer.
type query struct {
	name   string
	want   int
	reader func(context.Context, *reader.Series) iter.Seq2[reader.Measurement, error]
	server func(context.Context, *mongo.Collection) (int, error)
}

const (
	timeField  = "time"
	sensorPath = timeseries.FieldMeta + ".sensor"
)

// span returns the time of the first measurements, and a time after the last ones.
func (l Load) span() (from, to time.Time) {
	steps := (l.Records + l.Series - 1) / l.Series
	return l.Start, l.Start.Add(time.Duration(steps) * l.Step)
}

// queries returns the queries for the stored measurements.
func (l Load) queries() []query {
	_, end := l.span()
	minutes, hour := end.Add(-5*time.Minute), end.Add(-time.Hour)
	few := max(l.Series/10, 1)
	some := bson.D{{Key: sensorPath, Value: bson.D{{Key: "$lt", Value: sensor(few)}}}}
	whole := bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "sensor", Value: sensor(l.Series / 3)}}}
	part := bson.E{Key: sensorPath, Value: sensor(l.Series / 3)}
	maker := NewMaker(l)
	count := func(one bool, from time.Time) (n int) {
		for i := range l.Records {
			if at := maker.Time(i); (!one || maker.Series(i) == l.Series/3) && !at.Before(from) && at.Before(end) {
				n++
			}
		}
		return n
	}
	each := count(true, hour)
	return []query{
		find("all series, the last five minutes", count(false, minutes), bson.D{}, minutes, end),
		latest(fmt.Sprintf("latest of each of %d series, last hour", few), few, some, hour),
		latest(fmt.Sprintf("latest of each of %d series, whenever", few), few, some, time.Time{}),
		find("one series by a part of the meta, last hour", each, bson.D{part}, hour, end),
		find("one series by the whole meta, last hour", each, bson.D{whole}, hour, end),
		find("one series by both, last hour", each, bson.D{whole, part}, hour, end),
	}
}

// find returns a query for the measurements that match a filter in a range of time.
func find(name string, want int, filter bson.D, from, to time.Time) query {
	times := bson.E{Key: timeField, Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}
	return query{
		name: name, want: want,
		reader: func(ctx context.Context, s *reader.Series) iter.Seq2[reader.Measurement, error] {
			return s.Find(ctx, reader.Query{Meta: filter, From: from, To: to})
		},
		server: func(ctx context.Context, c *mongo.Collection) (int, error) {
			return drained(ctx)(c.Find(ctx, append(filter[:len(filter):len(filter)], times)))
		},
	}
}

// latest returns a query for the newest measurement of each series since from. A zero from means no bound.
func latest(name string, want int, filter bson.D, from time.Time) query {
	match := filter[:len(filter):len(filter)]
	if !from.IsZero() {
		match = append(match, bson.E{Key: timeField, Value: bson.D{{Key: "$gte", Value: from}}})
	}
	pipeline := bson.A{
		bson.D{{Key: "$match", Value: match}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeField, Value: -1}}}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta}, {Key: "last", Value: bson.D{{Key: "$first", Value: "$$ROOT"}}},
		}}},
	}
	return query{
		name: name, want: want,
		reader: func(ctx context.Context, s *reader.Series) iter.Seq2[reader.Measurement, error] {
			return s.Latest(ctx, reader.Query{Meta: filter, From: from})
		},
		server: func(ctx context.Context, c *mongo.Collection) (int, error) {
			return drained(ctx)(c.Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true)))
		},
	}
}

// drained reads a server's answer to its end, and counts its documents.
func drained(ctx context.Context) func(*mongo.Cursor, error) (int, error) {
	return func(cursor *mongo.Cursor, err error) (n int, _ error) {
		if err != nil {
			return 0, err
		}
		defer cursor.Close(context.WithoutCancel(ctx))
		for cursor.Next(ctx) {
			n++
		}
		return n, cursor.Err()
	}
}
