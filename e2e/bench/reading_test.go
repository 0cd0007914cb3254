package bench

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// BenchmarkReading measures queries in each way that the server has. The flags of TestMeasure describe the stored measurements.
// server-ns/op is the processor time of the server for a query, without the time of an idle server. It is known to 10 ms in all, so
// let each query run for some seconds (-benchtime). benchstat -col /way compares the ways.
func BenchmarkReading(b *testing.B) {
	if err := wanted.plan.Validate(); err != nil {
		b.Fatal(err)
	}
	ctx, stored := interruptible(b), benchOfFlags(b)
	pid := mongoPID(ctx, world.servers.MongoURI)
	questions := ask(ctx, b, stored, wanted.plan)
	idle := idleShare(ctx, pid)
	for _, q := range questions {
		b.Run("query="+q.query+"/way="+q.way, func(b *testing.B) {
			q.check(b) // fills the caches
			server := startMeter(ctx, pid)
			for b.Loop() {
				if _, err := q.ask(); err != nil {
					b.Fatal(err)
				}
			}
			if used := server.used(ctx); used >= 0 {
				b.ReportMetric(max(0, float64(used)-idle*float64(b.Elapsed()))/float64(b.N), "server-ns/op")
			}
		})
	}
}

// idleShare returns the share of a core that the server uses without queries.
func idleShare(ctx context.Context, pid int) float64 {
	const idleFor = 3 * time.Second
	server := startMeter(ctx, pid)
	if server.begun < 0 {
		return 0
	}
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
	}
	return max(0, float64(server.used(ctx))/float64(idleFor))
}

// TestEveryWayFindsWhatIsStored checks this because the time of a way of reading counts only if it finds exactly the stored
// measurements. With rollups, both ways find the same windows.
func TestEveryWayFindsWhatIsStored(t *testing.T) {
	p := Plan{Load: small(), Patience: 2 * time.Minute}
	p.Load.Step, p.Load.Records = time.Minute, 500
	for levels, want := range map[string]int{"": 6, "1m,1h,1d": 6} {
		b, log := newBench(t)
		if levels != "" {
			b.Settings[RollupLevels], b.Settings["ROLLUP_INTERVAL"], b.Settings["ROLLUP_SHARE"] = levels, "1s", "1"
		}
		questions := ask(within(t, 5*time.Minute), t, b, p)
		if len(questions) < want {
			t.Fatalf("%d questions\n%s", len(questions), log)
		}
		for _, q := range questions {
			q.check(t)
		}
	}
}

// question is a query in one way. ask returns the number of elements in the answer, which must be want.
type question struct {
	query, way string
	want       int
	ask        func() (int, error)
}

// check asks once.
func (q question) check(tb testing.TB) {
	tb.Helper()
	if n, err := q.ask(); err != nil || n != q.want {
		tb.Errorf("%s, %s: the answer has %d elements, not %d; %v", q.query, q.way, n, q.want, err)
	}
}

// ask has Waterwheel and Naive store the topic of a plan, and returns each query in each way that the server has: a native time
// series, the view, and package reader. With RollupLevels it returns totals instead, from measurements and from rows.
func ask(ctx context.Context, tb testing.TB, b *Bench, p Plan) (questions []question) {
	tb.Helper()
	topic, err := Fill(ctx, b.Servers, p.Load)
	if err != nil {
		tb.Fatal(err)
	}
	ours, plain := Drain{Waterwheel, 1}, Drain{Naive, 1}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanPatience)
		defer cancel()
		if err := errors.Join(b.Remove(ctx, topic, ours, plain), b.Servers.DeleteTopics(ctx, topic.Name, topic.Name+".dlq")); err != nil {
			tb.Error(err)
		}
	})
	r, err := b.inTime(ctx, topic, ours, p.Patience)
	if err = errors.Join(err, incomplete(r)); err != nil {
		tb.Fatal(err)
	}
	mongodb := client(tb)
	series, err := reader.Open(ctx, mongodb.Database(ours.Database(topic)), topic.Name)
	if err != nil {
		tb.Fatal(err)
	}
	if b.Settings[RollupLevels] != "" {
		return p.Load.totals(ctx, tb, series)
	}
	native, err := b.inTime(ctx, topic, plain, p.Patience)
	if err != nil {
		tb.Fatal(err)
	}
	view, plainly := mongodb.Database(ours.Database(topic)).Collection(topic.Name), mongodb.Database(plain.Database(topic)).Collection(topic.Name)
	views := view.FindOne(ctx, bson.D{}).Err() == nil // otherwise this server has no views
	for _, q := range p.Load.queries() {
		if native.Note == nativeNote {
			questions = append(questions, question{q.name, "native", q.want, func() (int, error) { return q.server(ctx, plainly) }})
		}
		if views {
			questions = append(questions, question{q.name, "view", q.want, func() (int, error) { return q.server(ctx, view) }})
		}
		questions = append(questions, question{q.name, "reader", q.want, func() (int, error) { return counted(q.reader(ctx, series)) }})
	}
	return questions
}

// totals returns queries for totals over all stored measurements. Rows must give as many windows as the measurements.
func (l Load) totals(ctx context.Context, tb testing.TB, series *reader.Series) (questions []question) {
	tb.Helper()
	from, to := l.span()
	one := bson.D{{Key: "meta", Value: bson.D{{Key: "sensor", Value: sensor(l.Series / 3)}}}}
	for _, q := range []struct {
		name  string
		query reader.Query
		every reader.Step
	}{
		{"one-by-hour", reader.Query{Meta: one}, reader.Step{Duration: time.Hour}},
		{"one-by-day", reader.Query{Meta: one}, reader.Step{Days: 1}},
		{"all-by-day", reader.Query{}, reader.Step{Days: 1}},
	} {
		q.query.From, q.query.To = from.Truncate(24*time.Hour), to.Truncate(24*time.Hour).Add(24*time.Hour)
		asking := func(exact bool) func() (int, error) {
			query := reader.TotalsQuery{Query: q.query, Every: q.every, Aggregations: []reader.Aggregation{reader.Mean, reader.Max}, Exact: exact}
			return func() (int, error) { return counted(series.Totals(ctx, query)) }
		}
		windows, err := asking(true)()
		if err != nil || windows == 0 {
			tb.Fatalf("%s: %d windows, %v", q.name, windows, err)
		}
		questions = append(questions, question{q.name, "measurements", windows, asking(true)}, question{q.name, "rows", windows, asking(false)})
	}
	return questions
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
		find("all-series-five-minutes", count(false, minutes), bson.D{}, minutes, end),
		latest("latest-of-a-tenth-last-hour", few, some, hour),
		latest("latest-of-a-tenth-whenever", few, some, time.Time{}),
		find("one-by-part-of-meta-last-hour", each, bson.D{part}, hour, end),
		find("one-by-whole-meta-last-hour", each, bson.D{whole}, hour, end),
		find("one-by-both-last-hour", each, bson.D{whole, part}, hour, end),
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
