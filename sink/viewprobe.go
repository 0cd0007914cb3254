package sink

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/timeseries"
)

// tryView tells by a refusal why the server does not make measurements of a bucket by the stages of this kind as this
// program does; nil: it does. A bucket with sparse columns is put beside the options, read through the stages, and deleted;
// where the time series has no view yet, through a view of its own, since a server may know the stages and no views. All
// names are random, so that several consumers may do it at once; what a crash leaves behind does no harm. The error tells
// that it is not known now.
func (s *series) tryView(ctx context.Context, kind ViewKind, have existing) (refusal, err error) {
	scratch := s.db.Collection(s.name + timeseries.OptionsSuffix)
	bucket, err := probeBucket(s.options)
	if err != nil {
		return nil, err
	}
	id := bson.D{{Key: "_id", Value: bucket.Lookup("_id")}}
	if _, err := scratch.InsertOne(ctx, bucket); err != nil {
		return s.refusal("writing a bucket to try views with", err)
	}
	defer func() { _, _ = scratch.DeleteOne(context.WithoutCancel(ctx), id) }()
	pipeline := append(bson.A{bson.D{{Key: "$match", Value: id}}}, s.pipeline(kind)...)
	var got []bson.Raw
	if have.kind == "view" {
		got, err = allOf(ctx)(scratch.Aggregate(ctx, pipeline))
	} else {
		got, err = s.throughView(ctx, scratch.Name(), pipeline)
	}
	if err != nil {
		return s.refusal("trying a view", err)
	}
	want, err := unpacked(s.options, bucket)
	if err != nil {
		return nil, err
	}
	return compareMeasurements(got, want), nil
}

// refusal sorts an error out: it tells something of the server, or nothing.
func (s *series) refusal(doing string, err error) (refusal, unknown error) {
	err = s.portError(err)
	if refused := (*CommandError)(nil); errors.As(err, &refused) && !passes(refused.Code) {
		return refused, nil
	}
	return nil, failure(doing, err)
}

// throughView reads all documents of a view that is made for it and dropped again.
func (s *series) throughView(ctx context.Context, on string, pipeline bson.A) ([]bson.Raw, error) {
	name := "waterwheel.probe-" + rand.Text()[:8] // short: the names of a time series may be as long as MongoDB allows
	if err := s.db.CreateView(ctx, name, on, pipeline); err != nil {
		return nil, err
	}
	view := s.db.Collection(name)
	defer func() { _ = view.Drop(context.WithoutCancel(ctx)) }() // some servers make a collection of it
	return allOf(ctx)(view.Find(ctx, bson.D{}))
}

// allOf reads a cursor to its end.
func allOf(ctx context.Context) func(*mongo.Cursor, error) ([]bson.Raw, error) {
	return func(cursor *mongo.Cursor, err error) (all []bson.Raw, _ error) {
		if err != nil {
			return nil, err
		}
		return all, cursor.All(ctx, &all)
	}
}

// probeBucket is a bucket of twelve measurements with full and sparse columns, values of many types, and times that do not
// rise. Its _id agrees with its time, as servers that narrow by it assume.
func probeBucket(o timeseries.Options) (bson.Raw, error) {
	const count, begin = 12, int64(1_700_000_000_000)
	start := o.Round(begin)
	var position timeseries.Position
	id := [16]byte{}
	_, _ = rand.Read(id[:])
	times, full, sparse, late := bson.D{}, bson.D{}, bson.D{}, bson.D{}
	for i := range count {
		key := fmt.Sprint(i)
		times = append(times, bson.E{Key: key, Value: bson.DateTime(begin + int64(i*7%count))})
		full = append(full, bson.E{Key: key, Value: i})
		if i%3 == 1 {
			sparse = append(sparse, bson.E{Key: key, Value: bson.D{{Key: "of", Value: bson.A{i, nil, "text"}}}})
		}
	}
	late = append(late, bson.E{Key: "10", Value: nil}, bson.E{Key: "11", Value: 0.5})
	name := func(wanted string) string { // beside the time and the meta
		for wanted == o.TimeField || wanted == o.MetaField {
			wanted += "_"
		}
		return wanted
	}
	document := bson.D{
		{Key: "_id", Value: timeseries.BucketID(timeseries.Source{TopicID: id}, position, 0, start)},
		{Key: "control", Value: bson.D{
			{Key: "version", Value: timeseries.Version},
			{Key: "min", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(start)}}},
			{Key: "max", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(begin + count - 1)}}},
			{Key: "count", Value: int32(count)},
		}},
	}
	if o.MetaField != "" {
		document = append(document, bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "probe", Value: true}}})
	}
	raw, err := bson.Marshal(append(document, bson.E{Key: timeseries.FieldData, Value: bson.D{
		{Key: name("sparse"), Value: sparse},
		{Key: o.TimeField, Value: times},
		{Key: name("late"), Value: late},
		{Key: name("full"), Value: full},
	}}))
	if err != nil {
		return nil, fmt.Errorf("encoding a bucket to try views with: %w", err)
	}
	return raw, nil
}

// unpacked are the measurements of a bucket as a view shows them: the time, the meta unless it is absent, the other fields.
func unpacked(o timeseries.Options, bucket bson.Raw) (all []bson.Raw, err error) {
	u := timeseries.NewUnpacker(o)
	if err := u.Reset(bucket); err != nil {
		return nil, err
	}
	var m timeseries.Unpacked
	for u.Next(&m) {
		head := bson.D{{Key: o.TimeField, Value: bson.DateTime(m.Time)}}
		if m.Meta.Type != 0 {
			head = append(head, bson.E{Key: o.MetaField, Value: m.Meta})
		}
		d := document(head)
		d = append(append(d[:len(d)-1], m.Elements...), 0)
		d[0], d[1], d[2], d[3] = byte(len(d)), byte(len(d)>>8), byte(len(d)>>16), byte(len(d)>>24)
		all = append(all, d)
	}
	return all, u.Err()
}

// compareMeasurements tells in what the server's measurements differ from the right ones; their order is the bucket's.
func compareMeasurements(got, want []bson.Raw) error {
	if len(got) != len(want) {
		return fmt.Errorf("it makes %d measurements of a bucket that holds %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("it makes %v of a measurement %v", got[i], want[i])
		}
	}
	return nil
}
