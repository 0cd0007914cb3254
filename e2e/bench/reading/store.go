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

	"waterwheel/sink"
	"waterwheel/timeseries"
)

// Load says what is stored: each series has a bucket for each of some hours.
type Load struct {
	Series int
	Hours  int
	Step   time.Duration // between two measurements of a series
}

// Validate tells what is wrong with a load.
func (l Load) Validate() error {
	if l.Series < 1 || l.Hours < 1 || l.Step < 4*time.Second || l.Step > 5*time.Minute {
		return fmt.Errorf("%d series of %d hours, a measurement each %s: give at least one of both, and 4 s to 5 min", l.Series, l.Hours, l.Step)
	}
	return nil
}

// stored names the same buckets in two time series, and the hours that they are of.
type stored struct {
	load     Load
	database *mongo.Database
	begin    time.Time
	native   bool // the server has time series of its own
}

const (
	oursName    = "readings"
	nativeName  = "native"
	sensorField = "sensor"
	timeField   = "time"
	fields      = 5
	insertedAt  = 500 // buckets in one call
)

var bucketOptions = timeseries.Options{TimeField: timeField, MetaField: timeseries.FieldMeta, Granularity: timeseries.Seconds, MaxSpanSeconds: 3600}

// meta is that of a series.
func meta(series int) bson.D { return bson.D{{Key: sensorField, Value: fmt.Sprintf("s-%07d", series)}} }

// end is the time behind all measurements.
func (s *stored) end() time.Time { return s.begin.Add(time.Duration(s.load.Hours) * time.Hour) }

// store makes both time series and puts the buckets into them.
func store(ctx context.Context, uri string, database *mongo.Database, l Load) (*stored, error) {
	s := &stored{load: l, database: database, begin: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	d, err := sink.Open(ctx, sink.Options{URI: uri, Database: database.Name(), WriteTimeout: time.Minute})
	if err != nil {
		return nil, err
	}
	defer d.Close(context.WithoutCancel(ctx))
	if _, err := d.Setup(ctx, oursName, bucketOptions, 1000); err != nil {
		return nil, fmt.Errorf("setting up the time series: %w", err)
	}
	own := options.TimeSeries().SetTimeField(timeField).SetMetaField(timeseries.FieldMeta).SetGranularity("seconds")
	err = database.CreateCollection(ctx, nativeName, options.CreateCollection().SetTimeSeriesOptions(own))
	s.native = err == nil
	if refused := (mongo.CommandError{}); err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("making a time series of the server's own: %w", err)
	}
	if s.native { // as MongoDB 6.3 and later make it by themselves
		keys := bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeField, Value: 1}}
		if _, err := database.Collection(nativeName).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys}); err != nil {
			return nil, fmt.Errorf("making the index on meta and time: %w", err)
		}
	}
	return s, s.fill(ctx)
}

// fill inserts the buckets, hour after hour.
func (s *stored) fill(ctx context.Context) error {
	var batch []bson.D
	for hour := range s.load.Hours {
		for series := range s.load.Series {
			batch = append(batch, s.bucket(series, hour))
			if len(batch) < insertedAt && series < s.load.Series-1 {
				continue
			}
			if _, err := s.database.Collection(oursName+timeseries.BucketsSuffix).InsertMany(ctx, batch); err != nil {
				return fmt.Errorf("inserting buckets: %w", err)
			}
			if s.native {
				if _, err := s.database.Collection("system.buckets."+nativeName).InsertMany(ctx, batch); err != nil {
					return fmt.Errorf("inserting buckets into the server's own time series: %w", err)
				}
			}
			batch = batch[:0]
		}
	}
	return nil
}

// bucket holds the measurements of a series in an hour.
func (s *stored) bucket(series, hour int) bson.D {
	begin := s.begin.Add(time.Duration(hour) * time.Hour)
	// Series do not measure at the same moment.
	first := begin.Add(time.Duration(series) * s.load.Step / time.Duration(s.load.Series)).Truncate(time.Millisecond)
	n := int(time.Hour / s.load.Step)
	columns := make([]bson.D, fields+1)
	var positions []timeseries.Position
	offset := int64((hour*s.load.Series + series) * n)
	for i := range n {
		index := strconv.Itoa(i)
		columns[0] = append(columns[0], bson.E{Key: index, Value: first.Add(time.Duration(i) * s.load.Step)})
		for f := range fields {
			columns[1+f] = append(columns[1+f], bson.E{Key: index, Value: float64(i) + float64(f)/8})
		}
		positions = append(positions, timeseries.Position{Offset: offset + int64(i)})
	}
	low, high := bson.D{{Key: timeField, Value: begin}}, bson.D{{Key: timeField, Value: first.Add(time.Duration(n-1) * s.load.Step)}}
	data := bson.D{{Key: timeField, Value: columns[0]}}
	for f := range fields {
		name := fmt.Sprintf("field%d", f)
		low, high = append(low, bson.E{Key: name, Value: float64(f) / 8}), append(high, bson.E{Key: name, Value: float64(n-1) + float64(f)/8})
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
