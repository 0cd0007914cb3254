package sink

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// probeMargin is how far from now the moments are at which probes come and go: clocks need not agree to seconds.
const probeMargin = time.Hour

// probe is a document with which views are tried. Its number is in its values, so that none passes for another.
type probe struct {
	number  int
	segment bool
	from    time.Time // of a bucket: it is shown from then on. Zero means always.
	until   time.Time // of a segment: it is shown until then. Zero means always.
	hidden  bool      // it is not to be shown now
}

// probes are a bucket, and for a time series with segments all that comes and goes.
func (s *series) probes(ctx context.Context) ([]probe, error) {
	if !s.segments {
		return []probe{{}}, nil
	}
	now, err := s.db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	before, after := now.Add(-probeMargin), now.Add(probeMargin)
	return []probe{
		{number: 0},
		{number: 1, from: after, hidden: true},
		{number: 2, from: before},
		{number: 3, segment: true},
		{number: 4, segment: true, until: after},
		{number: 5, segment: true, until: before, hidden: true},
	}, nil
}

// document is a bucket of twelve measurements with full and sparse columns, values of many types, and times that do not rise; or a
// segment of them, of two series and some without meta. Its _id agrees with its time, as servers that narrow by it assume.
func (p probe) document(o timeseries.Options) (bson.Raw, error) {
	const count, begin = 12, int64(1_700_000_000_000)
	start := o.Round(begin)
	var position timeseries.Position
	id := [16]byte{}
	_, _ = rand.Read(id[:])
	document := bson.D{
		{Key: "_id", Value: timeseries.BucketID(timeseries.Source{TopicID: id}, position, 0, start)},
		{Key: "control", Value: append(bson.D{
			{Key: "version", Value: timeseries.Version},
			{Key: "min", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(start)}}},
			{Key: "max", Value: bson.D{{Key: o.TimeField, Value: bson.DateTime(begin + count - 1)}}},
			{Key: "count", Value: int32(count)},
		}, p.control()...)},
	}
	times, metas, others := p.columns(o, count, begin)
	data := append(bson.D{others[0], times}, others[1:]...)
	if p.segment {
		data = append(append(bson.D{times}, metas...), others...)
	} else if o.MetaField != "" {
		document = append(document, bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "probe", Value: true}}})
	}
	raw, err := bson.Marshal(append(document, bson.E{Key: timeseries.FieldData, Value: data}))
	if err != nil {
		return nil, fmt.Errorf("encoding a bucket to try views with: %w", err)
	}
	return raw, nil
}

// columns are the columns of the times, of the metas where there are any, and of the other fields.
func (p probe) columns(o timeseries.Options, count int, begin int64) (timeColumn bson.E, metaColumn, others bson.D) {
	times, metas, full, sparse := bson.D{}, bson.D{}, bson.D{}, bson.D{}
	for i := range count {
		key := fmt.Sprint(i)
		times = append(times, bson.E{Key: key, Value: bson.DateTime(begin + int64(i*7%count))})
		full = append(full, bson.E{Key: key, Value: 100*p.number + i})
		switch i % 3 {
		case 0:
			metas = append(metas, bson.E{Key: key, Value: bson.D{{Key: "probe", Value: true}}})
		case 1:
			metas = append(metas, bson.E{Key: key, Value: "probe"})
			sparse = append(sparse, bson.E{Key: key, Value: bson.D{{Key: "of", Value: bson.A{i, nil, "text"}}}})
		}
	}
	name := func(wanted string) string { // beside the time and the meta
		for wanted == o.TimeField || wanted == o.MetaField {
			wanted += "_"
		}
		return wanted
	}
	if o.MetaField != "" {
		metaColumn = bson.D{{Key: o.MetaField, Value: metas}}
	}
	return bson.E{Key: o.TimeField, Value: times}, metaColumn, bson.D{
		{Key: name("sparse"), Value: sparse},
		{Key: name("late"), Value: bson.D{{Key: "10", Value: nil}, {Key: "11", Value: 0.5}}},
		{Key: name("full"), Value: full},
	}
}

// control is what the document says of itself as a segment, or as made of segments.
func (p probe) control() bson.D {
	switch {
	case p.segment:
		segment := bson.D{{Key: timeseries.FieldOwner, Value: "probe"}}
		if !p.until.IsZero() {
			segment = append(segment, bson.E{Key: timeseries.FieldVisibleUntil, Value: bson.NewDateTimeFromTime(p.until)})
		}
		return bson.D{{Key: timeseries.FieldClosed, Value: true}, {Key: timeseries.FieldSegment, Value: segment}}
	case p.from.IsZero():
		return nil
	}
	return bson.D{
		{Key: timeseries.FieldClosed, Value: true},
		{Key: timeseries.FieldCompaction, Value: bson.D{{Key: timeseries.FieldVisibleFrom, Value: bson.NewDateTimeFromTime(p.from)}}},
	}
}
