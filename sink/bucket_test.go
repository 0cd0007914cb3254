package sink_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/timeseries"
)

// minute is the rounded time of the buckets in these tests.
const minute = int64(1_700_000_040_000)

func metaOf(v any) bson.RawValue {
	kind, value, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: value}
}

func marshal(v any) bson.Raw {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func offsetsOf(positions ...timeseries.Position) []byte {
	return timeseries.AppendPositions(nil, positions)
}

// run returns the positions of n records from an offset on.
func run(from int64, n int) []timeseries.Position {
	all := make([]timeseries.Position, n)
	for i := range all {
		all[i].Offset = from + int64(i)
	}
	return all
}

// insertOf returns the first write of a bucket. The first position opens it.
func insertOf(series string, positions ...timeseries.Position) *bucketer.Write {
	return insertAt(series, minute, positions...)
}

func insertAt(series string, minTime int64, positions ...timeseries.Position) *bucketer.Write {
	first, last := positions[0].Offset, positions[0].Offset
	times, values := bson.D{}, bson.D{}
	for i, p := range positions {
		first, last = min(first, p.Offset), max(last, p.Offset)
		times = append(times, bson.E{Key: itoa(i), Value: bson.DateTime(minTime + int64(i))})
		values = append(values, bson.E{Key: itoa(i), Value: i})
	}
	w := &bucketer.Write{
		Kind: bucketer.Insert, ID: timeseries.BucketID(source, positions[0], 0, minTime), Meta: metaOf(series), MinTime: minTime,
		Added: int32(len(positions)), Count: int32(len(positions)), Offsets: offsetsOf(positions...), First: first,
	}
	w.Document = marshal(bson.D{
		{Key: "_id", Value: w.ID},
		{Key: "control", Value: bson.D{
			{Key: "version", Value: int32(1)},
			{Key: "min", Value: bson.D{{Key: "time", Value: bson.DateTime(minTime)}, {Key: "x", Value: 0}}},
			{Key: "max", Value: bson.D{{Key: "time", Value: bson.DateTime(minTime + int64(len(positions)))}, {Key: "x", Value: len(positions) - 1}}},
			{Key: "count", Value: w.Count},
			{Key: "size", Value: int32(100)},
			{Key: "source", Value: bson.D{
				{Key: "topic", Value: source.Topic},
				{Key: "partition", Value: source.Partition},
				{Key: "topicId", Value: bson.Binary{Subtype: 4, Data: source.TopicID[:]}},
				{Key: "first", Value: first},
				{Key: "last", Value: last},
				{Key: "offsets", Value: bson.A{bson.Binary{Data: w.Offsets}}},
			}},
		}},
		{Key: "meta", Value: w.Meta},
		{Key: "data", Value: bson.D{{Key: "time", Value: times}, {Key: "x", Value: values}}},
	})
	return w
}

// updateOf returns a delta for the bucket after w, with one more measurement.
func updateOf(w *bucketer.Write, position timeseries.Position) *bucketer.Write {
	u := &bucketer.Write{
		Kind: bucketer.Update, ID: w.ID, Meta: w.Meta, MinTime: w.MinTime, Added: 1, Count: w.Count + 1,
		Offsets: offsetsOf(position), First: position.Offset, Filter: filterOf(w),
	}
	n := itoa(int(w.Count))
	u.Document = marshal(bson.D{
		{Key: "$set", Value: bson.D{
			{Key: "control.count", Value: u.Count},
			{Key: "data.time." + n, Value: bson.DateTime(w.MinTime + 1)},
			{Key: "data.x." + n, Value: 1},
		}},
		{Key: "$push", Value: bson.D{{Key: "control.source.offsets", Value: bson.Binary{Data: u.Offsets}}}},
		{Key: "$min", Value: bson.D{{Key: "control.source.first", Value: position.Offset}}},
		{Key: "$max", Value: bson.D{{Key: "control.source.last", Value: position.Offset}}},
	})
	return u
}

// closeOf returns a write that closes the bucket after w.
func closeOf(w *bucketer.Write) *bucketer.Write {
	return &bucketer.Write{
		Kind: bucketer.Update, ID: w.ID, Meta: w.Meta, MinTime: w.MinTime, Count: w.Count, Closes: true, Filter: filterOf(w),
		Document: marshal(bson.D{{Key: "$set", Value: bson.D{{Key: "control.closed", Value: true}}}}),
	}
}

// filterOf returns the filter of an update of the bucket after w (E5).
func filterOf(w *bucketer.Write) bson.Raw {
	return marshal(bson.D{
		{Key: "_id", Value: w.ID},
		{Key: "meta", Value: bson.D{{Key: "$eq", Value: w.Meta}}},
		{Key: "control.min.time", Value: bson.DateTime(w.MinTime)},
		{Key: "control.count", Value: w.Count},
		{Key: "control.closed", Value: bson.D{{Key: "$ne", Value: true}}},
	})
}

func lookupOf(series string, time int64) bucketer.Lookup {
	meta := metaOf(series)
	return bucketer.Lookup{Series: string(byte(meta.Type)) + string(meta.Value), Meta: meta, Time: time}
}

func lookups(series ...string) []bucketer.Lookup {
	all := make([]bucketer.Lookup, len(series))
	for i, s := range series {
		all[i] = lookupOf(s, minute)
	}
	return all
}
