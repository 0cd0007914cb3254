package live

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/timeseries"
)

// looking checks which measurements of probes are stored. It calls see for the newest time of a measurement that it finds.
type looking interface {
	look(ctx context.Context, all []*probe, see func(p *probe, newest int64)) error
}

// looks returns the way to look at the documents that w stores.
func (w Way) looks(database *mongo.Database, topic string) looking {
	buckets := database.Collection(topic + timeseries.BucketsSuffix)
	switch w {
	case Segments:
		options := timeseries.Options{TimeField: timeField, MetaField: timeseries.FieldMeta}
		return &segmentLook{buckets: buckets, unpacker: timeseries.NewUnpacker(options), seen: map[any]int64{}}
	case Plain:
		return plainLook{database.Collection(topic)}
	default:
		return &bucketLook{buckets: buckets, known: map[*probe]any{}}
	}
}

// timeField is the time field of the events, and the default of the consumer.
const timeField = "time"

// bucketLook looks at the newest known buckets by _id, which is cheap. From time to time it looks for newer buckets.
type bucketLook struct {
	buckets *mongo.Collection
	known   map[*probe]any // the _id of the newest bucket
	next    time.Time      // when to look for newer buckets
}

func (l *bucketLook) look(ctx context.Context, all []*probe, see func(p *probe, newest int64)) error {
	begun := time.Now()
	search := begun.After(l.next) || len(l.known) == 0
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: slices.AppendSeq(bson.A{}, maps.Values(l.known))}}}}
	if search {
		filter = bson.D{{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$in", Value: metas(all)}}}}
	}
	fields := bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.MaxPath(timeField), Value: 1}}
	cursor, err := l.buckets.Find(ctx, filter, options.Find().SetProjection(fields))
	if err != nil {
		return err
	}
	var found []struct {
		ID      any `bson:"_id"`
		Meta    struct{ Sensor string }
		Control struct {
			Max struct{ Time time.Time }
		}
	}
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	for _, f := range found {
		newest := f.Control.Max.Time.UnixMilli()
		if p := named(all, f.Meta.Sensor); p != nil && newest > p.seen {
			l.known[p] = f.ID
			see(p, newest)
		}
	}
	if search {
		l.next = time.Now().Add(max(4*lookEvery, looksShare*time.Since(begun)))
	}
	return nil
}

// metas returns the metas of the probes, as they are stored.
func metas(all []*probe) (metas bson.A) {
	for _, p := range all {
		metas = append(metas, bson.D{{Key: sensorField, Value: p.name}})
	}
	return metas
}

const sensorField = "sensor"

// sensorPath is the path of a series' name within the meta.
const sensorPath = timeseries.FieldMeta + "." + sensorField

// named returns the probe with a name, or nil.
func named(all []*probe, name string) *probe {
	if i := slices.IndexFunc(all, func(p *probe) bool { return p.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// segmentLook looks once at each segment that may hold a probe's next measurement. A measurement is in a segment before it is in
// a bucket.
type segmentLook struct {
	buckets  *mongo.Collection
	unpacker *timeseries.Unpacker
	seen     map[any]int64 // time of the newest measurement of each segment that was looked at, by _id
}

func (l *segmentLook) look(ctx context.Context, all []*probe, see func(p *probe, newest int64)) error {
	filter := l.filter(all)
	cursor, err := l.buckets.Find(ctx, filter)
	if err != nil {
		return err
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		newest, _ := cursor.Current.Lookup("control", "max", timeField).DateTimeOK()
		l.seen[cursor.Current.Lookup("_id").ObjectID()] = newest
		if err := l.unpack(cursor.Current, all, see); err != nil {
			return err
		}
	}
	return cursor.Err()
}

// filter matches new segments with measurements newer than the newest seen one of a probe, if the segment may contain its series.
func (l *segmentLook) filter(all []*probe) bson.D {
	least := int64(1<<63 - 1)
	var any bson.A
	for _, p := range all {
		least = min(least, p.seen)
		any = append(any, bson.D{
			timeseries.IsSegment(),
			{Key: timeseries.MinPath(sensorPath), Value: bson.D{{Key: "$lte", Value: p.name}}},
			{Key: timeseries.MaxPath(sensorPath), Value: bson.D{{Key: "$gte", Value: p.name}}},
			{Key: timeseries.MaxPath(timeField), Value: bson.D{{Key: "$gt", Value: bson.DateTime(p.seen)}}},
		})
	}
	known := bson.A{}
	for id, newest := range l.seen {
		if newest <= least {
			delete(l.seen, id) // the filter on the time already excludes it
			continue
		}
		known = append(known, id)
	}
	return bson.D{{Key: "$or", Value: any}, {Key: "_id", Value: bson.D{{Key: "$nin", Value: known}}}}
}

// unpack looks for probes in a segment.
func (l *segmentLook) unpack(segment bson.Raw, all []*probe, see func(p *probe, newest int64)) error {
	if err := l.unpacker.Reset(segment); err != nil {
		return err
	}
	for m := (timeseries.Unpacked{}); l.unpacker.Next(&m); {
		meta, _ := m.Meta.DocumentOK()
		name, _ := meta.Lookup(sensorField).StringValueOK()
		if p := named(all, name); p != nil && m.Time > p.seen {
			see(p, m.Time)
		}
	}
	return l.unpacker.Err()
}

// plainLook looks for newer documents by the index on series and time.
type plainLook struct{ documents *mongo.Collection }

func (l plainLook) look(ctx context.Context, all []*probe, see func(p *probe, newest int64)) error {
	var any bson.A
	for _, p := range all {
		any = append(any, bson.D{
			{Key: sensorPath, Value: p.name}, {Key: timeField, Value: bson.D{{Key: "$gt", Value: bson.DateTime(p.seen)}}},
		})
	}
	fields := bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeField, Value: 1}}
	cursor, err := l.documents.Find(ctx, bson.D{{Key: "$or", Value: any}}, options.Find().SetProjection(fields))
	if err != nil {
		return err
	}
	var found []struct {
		Meta struct{ Sensor string }
		Time time.Time
	}
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	for _, f := range found {
		if p := named(all, f.Meta.Sensor); p != nil && f.Time.UnixMilli() > p.seen {
			see(p, f.Time.UnixMilli())
		}
	}
	return nil
}
