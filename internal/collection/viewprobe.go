package collection

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/words"
)

// tryView returns a refusal if the server does not make the same measurements by the stages of this kind as this program. Nil
// means that it does. It reads a bucket with sparse columns through the stages. If the time series has segments, it also reads
// buckets and segments that are shown now and some that are not. The pipeline itself holds these documents, so nothing is
// written. The error means that the answer is not known now.
func (s *series) tryView(ctx context.Context, kind ViewKind, have existing) (refusal, err error) {
	probes, err := s.probes(ctx)
	if err != nil {
		return nil, err
	}
	documents := make(bson.A, len(probes))
	var want []bson.Raw
	for i, p := range probes {
		document := p.document(s.options)
		documents[i] = document
		if p.hidden {
			continue
		}
		measurements, err := unpacked(s.options, document)
		if err != nil {
			return nil, err
		}
		want = append(want, measurements...)
	}
	got, err := s.readProbes(ctx, documents, kind, have)
	if err != nil {
		return s.refusal("trying a view", err)
	}
	if len(probes) > 1 { // the order of documents and of the view's parts is undefined
		slices.SortFunc(got, slices.Compare[bson.Raw])
		slices.SortFunc(want, slices.Compare[bson.Raw])
	}
	return compareMeasurements(got, want), nil
}

// readProbes reads documents through the stages of a view. The pipeline puts them in place of the options document, of which
// there is one. If there is no view yet, it reads them through a temporary view, because a server may know the stages and have no
// views.
func (s *series) readProbes(ctx context.Context, documents bson.A, kind ViewKind, have existing) ([]bson.Raw, error) {
	const field = "probe"
	in := bson.A{
		bson.D{{Key: stageMatch, Value: bson.D{{Key: "_id", Value: timeseries.DefinitionID}}}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "_id", Value: 0}, {Key: field, Value: literal(documents)}}}},
		bson.D{{Key: "$unwind", Value: "$" + field}},
		bson.D{{Key: "$replaceRoot", Value: bson.D{{Key: "newRoot", Value: "$" + field}}}},
	}
	scratch := s.driver().Collection(s.name + timeseries.OptionsSuffix)
	pipeline := slices.Concat(in, unpackingStages(kind, s.options))
	if s.segments {
		pipeline = unionPipeline(kind, s.options, scratch.Name(), in)
	}
	if have.kind != "view" {
		if all, err := s.throughView(ctx, scratch.Name(), pipeline); !mongodb.LacksRight(s.db.Translate(err)) {
			return all, err
		} // a server with rights has views; making the real view shows whether the user may
	}
	return allOf[bson.Raw](ctx)(scratch.Aggregate(ctx, pipeline))
}

// refusal splits an error into a refusal, which says something about the server, and an unknown error. A missing right says
// nothing about the server.
func (s *series) refusal(operation string, err error) (refusal, unknown error) {
	err = s.db.Translate(err)
	if mongodb.Refuses(err) && !mongodb.LacksRight(err) {
		return err, nil
	}
	return nil, mongodb.Failure(operation, err)
}

// throughView reads all documents of a temporary view and drops it again. It tries the right to drop first, so that no view
// stays.
func (s *series) throughView(ctx context.Context, on string, pipeline bson.A) ([]bson.Raw, error) {
	// The name is short, because the names of a time series may be as long as MongoDB allows.
	view := s.driver().Collection("waterwheel.probe-" + rand.Text()[:8])
	if err := view.Drop(ctx); err != nil {
		return nil, err
	}
	if err := s.driver().CreateView(ctx, view.Name(), on, pipeline); err != nil {
		return nil, err
	}
	defer func() { _ = view.Drop(context.WithoutCancel(ctx)) }() // some servers make a collection instead of a view
	return allOf[bson.Raw](ctx)(view.Find(ctx, bson.D{}))
}

// unpacked returns the measurements of a bucket as a view shows them: the time, the meta unless it is absent, the other fields.
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
		d := mongodb.Document(head)
		d = append(append(d[:len(d)-1], m.Elements...), 0)
		binary.LittleEndian.PutUint32(d, uint32(len(d)))
		all = append(all, d)
	}
	return all, u.Err()
}

// compareMeasurements says how the server's measurements differ from the right ones. Both are in the same order.
func compareMeasurements(got, want []bson.Raw) error {
	if len(got) != len(want) {
		return fmt.Errorf("a test of the view returned %s instead of %d", words.Count(len(got), "measurement"), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("a test of the view returned %v instead of the measurement %v", got[i], want[i])
		}
	}
	return nil
}

// probeMargin is the distance from now at which probes begin and end, because clocks may differ by seconds.
const probeMargin = time.Hour

// probe is a document for trying views. Its number is in its values, so that no probe passes for another.
type probe struct {
	number  int
	segment bool
	from    time.Time // a bucket is shown from then on. Zero means always.
	until   time.Time // a segment is shown until then. Zero means always.
	hidden  bool      // the document must not be shown now
}

// probes returns a bucket, and for a time series with segments also documents that begin or end at some time.
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

// document makes a bucket of twelve measurements with full and sparse columns, values of many types, and times in no order. A
// segment has the same measurements, of two series and some without meta. Its _id agrees with its time, because servers narrow by
// it.
func (p probe) document(o timeseries.Options) bson.Raw {
	const count, begin = 12, int64(1_700_000_000_000)
	start := o.Round(begin)
	var source timeseries.Source
	_, _ = rand.Read(source.TopicID[:]) // never fails
	bucketID := timeseries.BucketID(source, timeseries.Position{}, 0, start)
	document := bson.D{
		{Key: "_id", Value: bucketID},
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
		document = append(document, bson.E{Key: timeseries.FieldMeta, Value: timeseries.SegmentMetaOf(bucketID)})
	} else if o.MetaField != "" {
		document = append(document, bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "probe", Value: true}}})
	}
	return mongodb.Document(append(document, bson.E{Key: timeseries.FieldData, Value: data}))
}

// columns returns the columns of the times, of the metas if there are any, and of the other fields.
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
	name := func(wanted string) string { // other than the time and the meta
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

// control returns the control fields of a segment, or of a bucket that was made of segments.
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
