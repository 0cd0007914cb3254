package reading

import (
	"context"
	"fmt"
	"iter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/timeseries"
	"waterwheel/reader"
)

// query is a query in each way. want is the number of measurements in its answer.
type query struct {
	name   string
	want   int
	reader func(ctx context.Context, s *reader.Series) iter.Seq2[reader.Measurement, error]
	server func(ctx context.Context, c *mongo.Collection) (*mongo.Cursor, error) // for the view and the native time series
}

// latestShare is the divisor of the number of series for the queries of latest measurements.
const latestShare = 10

// queries returns the queries for the stored measurements.
func (s *stored) queries() []query {
	minutes := s.end().Add(-30 * time.Minute)
	few := max(s.load.Series/latestShare, 1)
	some := bson.D{{Key: timeseries.FieldMeta + "." + sensorField, Value: bson.D{{Key: "$lt", Value: meta(few)[0].Value}}}}
	whole := bson.D{{Key: timeseries.FieldMeta, Value: meta(s.load.Series / 3)}}
	part := bson.D{{Key: timeseries.FieldMeta + "." + sensorField, Value: meta(s.load.Series / 3)[0].Value}}
	hour := s.end().Add(-time.Hour)
	all := []query{
		{
			name: "all series of five minutes", want: s.load.Series * int(5*time.Minute/s.load.Step),
			reader: found(reader.Query{From: minutes, To: minutes.Add(5 * time.Minute)}),
			server: s.filtered(bson.D{}, minutes, minutes.Add(5*time.Minute)),
		},
		{
			name: fmt.Sprintf("latest of each of %d series", few), want: few,
			reader: latest(reader.Query{Meta: some, From: hour}),
			server: s.newest(some, hour),
		},
		{
			name: fmt.Sprintf("latest of each of %d series, whenever", few), want: few,
			reader: latest(reader.Query{Meta: some}),
			server: s.newest(some, time.Time{}),
		},
		{
			name: "one series by a part of the meta, last hour", want: int(time.Hour / s.load.Step),
			reader: found(reader.Query{Meta: part, From: hour, To: s.end()}),
			server: s.filtered(part, hour, s.end()),
		},
		{
			name: "one series, last hour", want: int(time.Hour / s.load.Step),
			reader: found(reader.Query{Meta: whole, From: hour, To: s.end()}),
			server: s.filtered(whole, hour, s.end()),
		},
	}
	if s.load.Flushes > 0 {
		all = s.liveQueries()
	}
	return all
}

// liveQueries returns queries for one series with some measurements in segments.
func (s *stored) liveQueries() []query {
	to := s.end().Add(time.Duration(s.load.Flushes) * s.load.Step)
	from := to.Add(-time.Hour)
	i := s.load.Series / 3
	n := s.load.Flushes
	for at := s.first(i, s.load.Hours-1); at.Before(s.end()); at = at.Add(s.load.Step) {
		if !at.Before(from) {
			n++
		}
	}
	whole, part := bson.E{Key: timeseries.FieldMeta, Value: meta(i)}, bson.E{Key: sensorPath, Value: meta(i)[0].Value}
	ask := func(name string, filter ...bson.E) query {
		return query{
			name: name, want: n,
			reader: found(reader.Query{Meta: bson.D(filter), From: from, To: to}), server: s.filtered(filter, from, to),
		}
	}
	return []query{
		ask(fmt.Sprintf("one series by %s, last hour, %d measurements in segments", sensorPath, s.load.Series*s.load.Flushes), part),
		ask("the same by the whole meta", whole),
		ask("the same by both", whole, part),
	}
}

func found(q reader.Query) func(context.Context, *reader.Series) iter.Seq2[reader.Measurement, error] {
	return func(ctx context.Context, s *reader.Series) iter.Seq2[reader.Measurement, error] {
		return s.Find(ctx, q)
	}
}

func latest(q reader.Query) func(context.Context, *reader.Series) iter.Seq2[reader.Measurement, error] {
	return func(ctx context.Context, s *reader.Series) iter.Seq2[reader.Measurement, error] {
		return s.Latest(ctx, q)
	}
}

// filtered returns a query for the measurements that match filter in a range of time.
func (s *stored) filtered(filter bson.D, from, to time.Time) func(context.Context, *mongo.Collection) (*mongo.Cursor, error) {
	times := bson.E{Key: timeField, Value: bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: to}}}
	filter = append(filter[:len(filter):len(filter)], times)
	return func(ctx context.Context, c *mongo.Collection) (*mongo.Cursor, error) { return c.Find(ctx, filter) }
}

// newest returns a query for the newest measurement of each series since from. A zero from means no bound.
func (s *stored) newest(filter bson.D, from time.Time) func(context.Context, *mongo.Collection) (*mongo.Cursor, error) {
	if !from.IsZero() {
		filter = append(filter[:len(filter):len(filter)], bson.E{Key: timeField, Value: bson.D{{Key: "$gte", Value: from}}})
	}
	pipeline := bson.A{
		bson.D{{Key: "$match", Value: filter}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeField, Value: -1}}}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta}, {Key: "last", Value: bson.D{{Key: "$first", Value: "$$ROOT"}}},
		}}},
	}
	return func(ctx context.Context, c *mongo.Collection) (*mongo.Cursor, error) {
		return c.Aggregate(ctx, pipeline, options.Aggregate().SetAllowDiskUse(true))
	}
}

// viaServer reads the server's answer to its end, and counts the measurements.
func viaServer(ctx context.Context, q query, c *mongo.Collection) (n int, err error) {
	cursor, err := q.server(ctx, c)
	if err != nil {
		return 0, err
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		n++
	}
	return n, cursor.Err()
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
