package reading

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Load says what to store. Each series has a bucket for each of some hours, and some measurements of the next hour in segments.
type Load struct {
	Series int
	Hours  int
	Step   time.Duration // time between two measurements of a series
	// Flushes is the number of measurements of each series in segments, one of each flush. Rows is the maximum number of
	// measurements in a segment.
	Flushes, Rows int
	// Repeat is how long each query is repeated, at least leastTimes.
	Repeat time.Duration
}

// Validate returns an error if the load is wrong. A step of more than 5 minutes suits totals only: a query for reading takes five
// minutes.
func (l Load) Validate() error {
	if l.Flushes < 0 || l.Flushes > int(time.Hour/max(l.Step, time.Second)) || l.Flushes > 0 && l.Rows < 1 {
		return fmt.Errorf("%d flushes into segments of %d measurements: give at most an hour of the steps, and at least 1 measurement", l.Flushes, l.Rows)
	}
	if l.Series < 1 || l.Hours < 1 || l.Step < 4*time.Second || l.Step > time.Hour {
		return fmt.Errorf("%d series of %d hours, a measurement each %s: give at least one of both, and 4 s to 1 h", l.Series, l.Hours, l.Step)
	}
	return nil
}

// stored is the same buckets in one time series, or also in a native one. begin is the start of their first hour.
type stored struct {
	load     Load
	database *mongo.Database
	begin    time.Time
	native   bool // the load is also in a native time series of the server
}

const (
	oursName    = "readings"
	nativeName  = "native"
	sensorField = "sensor"
	sensorPath  = timeseries.FieldMeta + "." + sensorField
	timeField   = "time"
	fields      = 5
	insertedAt  = 500 // buckets in one call
)

var bucketOptions = timeseries.Options{TimeField: timeField, MetaField: timeseries.FieldMeta, Granularity: timeseries.Seconds, MaxSpanSeconds: 3600}

// meta returns the meta of a series.
func meta(series int) bson.D { return bson.D{{Key: sensorField, Value: fmt.Sprintf("s-%07d", series)}} }

// end returns the end of the last hour with buckets.
func (s *stored) end() time.Time { return s.begin.Add(time.Duration(s.load.Hours) * time.Hour) }

// first returns the time of a series' first measurement in an hour. Series measure at different moments.
func (s *stored) first(series, hour int) time.Time {
	begin := s.begin.Add(time.Duration(hour) * time.Hour)
	return begin.Add(time.Duration(series) * s.load.Step / time.Duration(s.load.Series)).Truncate(time.Millisecond)
}

// valueOf returns the value of a field in the i-th measurement of an hour.
func valueOf(i, field int) float64 { return float64(i) + float64(field)/8 }

// fieldName returns the name of a field.
func fieldName(field int) string { return fmt.Sprintf("field%d", field) }

// elementsOf returns the fields of the i-th measurement of an hour.
func elementsOf(i int) (elements []byte) {
	for f := range fields {
		elements = bsoncore.AppendDoubleElement(elements, fieldName(f), valueOf(i, f))
	}
	return elements
}

// store creates a time series and stores the buckets in it. With native it also does so with a native one, if the server has such.
func store(ctx context.Context, uri string, database *mongo.Database, l Load, native bool) (*stored, error) {
	s := &stored{load: l, database: database, begin: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	var as collection.Settings
	if l.Flushes > 0 {
		as = collection.Settings{Segments: collection.SegmentsOn, MetaPaths: []string{sensorPath}}
	}
	d, err := mongodb.Open(ctx, mongodb.Options{URI: uri, Database: database.Name(), WriteTimeout: time.Minute})
	if err != nil {
		return nil, err
	}
	defer d.Close(context.WithoutCancel(ctx))
	if _, err := collection.Of(d, oursName).Setup(ctx, bucketOptions, as); err != nil {
		return nil, fmt.Errorf("setting up the time series: %w", err)
	}
	if native {
		if err := s.createNative(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	return s, s.live(ctx, d)
}

// createNative creates the native time series with its indexes, if the server has native time series.
func (s *stored) createNative(ctx context.Context) error {
	own := options.TimeSeries().SetTimeField(timeField).SetMetaField(timeseries.FieldMeta).SetGranularity("seconds")
	err := s.database.CreateCollection(ctx, nativeName, options.CreateCollection().SetTimeSeriesOptions(own))
	s.native = err == nil
	if _, ok := errors.AsType[mongo.CommandError](err); err != nil && !ok {
		return fmt.Errorf("making a time series of the server's own: %w", err)
	}
	if !s.native {
		return nil
	}
	// MongoDB 6.3 and later make the first index by themselves. META_INDEXES makes the second one in our collection.
	indexes := []bson.D{{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeField, Value: 1}}}
	if s.load.Flushes > 0 {
		indexes = append(indexes, bson.D{{Key: sensorPath, Value: 1}, {Key: timeField, Value: -1}})
	}
	for _, keys := range indexes {
		if _, err := s.database.Collection(nativeName).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil {
			return fmt.Errorf("making an index of the server's own time series: %w", err)
		}
	}
	return nil
}

// These are the collections of buckets.
const (
	oursBuckets   = oursName + timeseries.BucketsSuffix
	nativeBuckets = "system.buckets." + nativeName
)

// fill inserts the buckets, hour after hour.
func (s *stored) fill(ctx context.Context) error {
	collections := []string{oursBuckets}
	if s.native {
		collections = append(collections, nativeBuckets)
	}
	for hour := range s.load.Hours {
		if err := s.insertBuckets(ctx, hour, int(time.Hour/s.load.Step), collections...); err != nil {
			return err
		}
	}
	return nil
}

// insertBuckets inserts a bucket of each series into the given collections. A bucket holds the first n measurements of an hour.
func (s *stored) insertBuckets(ctx context.Context, hour, n int, collections ...string) error {
	var batch []bson.D
	for series := range s.load.Series {
		batch = append(batch, s.bucket(series, hour, n))
		if len(batch) < insertedAt && series < s.load.Series-1 {
			continue
		}
		for _, name := range collections {
			if _, err := s.database.Collection(name).InsertMany(ctx, batch); err != nil {
				return fmt.Errorf("inserting into %s: %w", name, err)
			}
		}
		batch = batch[:0]
	}
	return nil
}

// bucket returns a bucket with the first n measurements of a series in an hour.
func (s *stored) bucket(series, hour, n int) bson.D {
	begin, first := s.begin.Add(time.Duration(hour)*time.Hour), s.first(series, hour)
	columns := make([]bson.D, fields+1)
	var positions []timeseries.Position
	offset := int64((hour*s.load.Series + series) * n)
	for i := range n {
		index := strconv.Itoa(i)
		columns[0] = append(columns[0], bson.E{Key: index, Value: first.Add(time.Duration(i) * s.load.Step)})
		for f := range fields {
			columns[1+f] = append(columns[1+f], bson.E{Key: index, Value: valueOf(i, f)})
		}
		positions = append(positions, timeseries.Position{Offset: offset + int64(i)})
	}
	low, high := bson.D{{Key: timeField, Value: begin}}, bson.D{{Key: timeField, Value: first.Add(time.Duration(n-1) * s.load.Step)}}
	data := bson.D{{Key: timeField, Value: columns[0]}}
	for f := range fields {
		name := fieldName(f)
		low, high = append(low, bson.E{Key: name, Value: valueOf(0, f)}), append(high, bson.E{Key: name, Value: valueOf(n-1, f)})
		data = append(data, bson.E{Key: name, Value: columns[1+f]})
	}
	source := timeseries.Source{TopicID: [16]byte{1}}
	return bson.D{
		{Key: timeseries.FieldID, Value: timeseries.BucketID(source, positions[0], 0, begin.UnixMilli())},
		{Key: timeseries.FieldControl, Value: bson.D{
			{Key: "version", Value: int32(1)},
			{Key: "min", Value: low},
			{Key: "max", Value: high},
			{Key: timeseries.FieldCount, Value: int32(n)},
			{Key: timeseries.FieldSource, Value: bson.D{
				{Key: "topic", Value: "readings"},
				{Key: "partition", Value: int32(0)},
				{Key: timeseries.FieldTopicID, Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: source.TopicID[:]}},
				{Key: "first", Value: offset},
				{Key: timeseries.FieldLast, Value: offset + int64(n) - 1},
				{Key: "offsets", Value: bson.A{bson.Binary{Data: timeseries.AppendPositions(nil, positions)}}},
			}},
		}},
		{Key: timeseries.FieldMeta, Value: meta(series)},
		{Key: timeseries.FieldData, Value: data},
	}
}
