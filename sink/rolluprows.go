package sink

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// Listed calls each for every bucket and segment of a source that may list offsets in [from, to), whether it is shown or not.
// The document has the meta, the times and the positions.
func (r *Rollups) Listed(ctx context.Context, o timeseries.Options, source timeseries.Source, from, to int64, each func(bson.Raw) error) error {
	fields := bson.D{
		{Key: timeseries.FieldMeta, Value: 1},
		{Key: timeseries.PathVersion, Value: 1},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathSource, Value: 1},
		{Key: timeseries.PathSegment, Value: 1},
		{Key: timeseries.DataPath(o.TimeField), Value: 1},
	}
	if o.MetaField != "" {
		fields = append(fields, bson.E{Key: timeseries.DataPath(o.MetaField), Value: 1})
	}
	return r.find(ctx, "reading the measurements stored since the last rollup pass", r.ports.Buckets, mongodb.Query{
		Filter: mongodb.Document(timeseries.Listing(source, from, to-1)), Projection: mongodb.Document(fields), Batch: storedBatch,
	}, each)
}

// overlapping returns the conditions that a document may hold times in [from, to), in milliseconds.
func overlapping(o timeseries.Options, from, to int64) bson.D {
	return bson.D{
		{Key: timeseries.MinPath(o.TimeField), Value: bson.D{{Key: "$gt", Value: bson.DateTime(from - o.Span())}, {Key: "$lt", Value: bson.DateTime(to)}}},
		{Key: timeseries.MaxPath(o.TimeField), Value: bson.D{{Key: "$gte", Value: bson.DateTime(from)}}},
	}
}

// Segments calls each for every segment that is shown at the time now and may hold times in [from, to).
func (r *Rollups) Segments(ctx context.Context, o timeseries.Options, now time.Time, from, to int64, each func(bson.Raw) error) error {
	return r.find(ctx, "reading segments for rollups", r.ports.Buckets, mongodb.Query{
		Filter: mongodb.Document(append(timeseries.SegmentsShown(now), overlapping(o, from, to)...)), Batch: segmentBatch,
	}, each)
}

// segmentBatch is the number of segments in one answer.
const segmentBatch = 100

// Shown calls each for every bucket of the given series that is shown at the time now and may hold times in [from, to).
func (r *Rollups) Shown(
	ctx context.Context, o timeseries.Options, now time.Time, metas []bson.RawValue, from, to int64, each func(bson.Raw) error,
) error {
	filter := append(bson.D{ofMetas(metas)}, append(timeseries.BucketsShown(now), overlapping(o, from, to)...)...)
	return r.find(ctx, "reading buckets for rollups", r.ports.Buckets, mongodb.Query{Filter: mongodb.Document(filter), Batch: bucketBatch}, each)
}

// bucketBatch is the number of buckets in one answer.
const bucketBatch = 1000

// ofMetas returns the condition that a document's meta equals one of the metas. An equality also finds values that $in may
// miss: no meta, arrays, and values that $in would read as conditions.
func ofMetas(metas []bson.RawValue) bson.E {
	if len(metas) == 1 {
		return timeseries.HasMeta(metas[0])
	}
	var plain, all bson.A
	for _, meta := range metas {
		one := timeseries.HasMeta(meta)
		if _, operator := one.Value.(bson.D); operator || meta.Type == bson.TypeArray {
			all = append(all, bson.D{one})
		} else {
			plain = append(plain, meta)
		}
	}
	among := bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$in", Value: plain}}}
	switch {
	case len(all) == 0:
		return among
	case len(plain) > 0:
		all = append(all, bson.D{among})
	}
	return bson.E{Key: "$or", Value: all}
}

// Documents calls each for the documents of a level with the given _ids.
func (r *Rollups) Documents(ctx context.Context, level string, ids []bson.ObjectID, each func(bson.Raw) error) error {
	filter := mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}})
	return r.find(ctx, "reading rollup documents", r.ports.Levels[level], mongodb.Query{Filter: filter}, each)
}

// MostTogether bounds the documents of one command of Put, because a short command disturbs others little.
const MostTogether = 64

// Put stores documents of a level, each with a revision. Revision 1 is inserted, and any other replaces the document of the
// revision before. An update command has up to together documents, at least 1 and at most MostTogether.
//
// The result lost has the _ids of documents that another writer stored first. Their source data must be read again. MongoDB
// reports only how many documents a command has replaced. If some were not replaced, all documents of the command are in lost.
func (r *Rollups) Put(
	ctx context.Context, level string, o timeseries.Options, documents []rollup.Document, together int,
) (lost []bson.ObjectID, err error) {
	const operation = "storing rollup rows"
	var inserts []bson.Raw
	var updates []mongodb.Update
	var inserted, updated []bson.ObjectID
	for i := range documents {
		d := &documents[i]
		if d.Revision == 1 {
			inserts, inserted = append(inserts, d.Encode(o)), append(inserted, d.ID)
			continue
		}
		control, data := d.Contents(o)
		updated = append(updated, d.ID)
		updates = append(updates, mongodb.Update{
			Filter: mongodb.Document(bson.D{
				{Key: timeseries.FieldID, Value: d.ID},
				timeseries.HasMeta(d.Meta),
				{Key: timeseries.MinPath(o.TimeField), Value: bson.DateTime(d.From)},
				{Key: rollup.PathRevision, Value: d.Revision - 1},
			}),
			Update: mongodb.Set(bson.D{{Key: timeseries.FieldControl, Value: control}, {Key: timeseries.FieldData, Value: data}}),
		})
	}
	for some := range slices.Chunk(updates, together) {
		n, err := mongodb.Executed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) { return r.ports.Levels[level].Update(ctx, some) }))
		if err != nil {
			return nil, mongodb.Failure(operation, err)
		}
		if n < int64(len(some)) {
			lost = append(lost, updated[:len(some)]...)
		}
		updated = updated[len(some):]
	}
	for some := range slices.Chunk(inserts, MostTogether) {
		existing, err := mongodb.Inserted(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) { return r.ports.Levels[level].Insert(ctx, some) }))
		if err != nil {
			return nil, mongodb.Failure(operation, err)
		}
		for _, i := range existing {
			lost = append(lost, inserted[i])
		}
		inserted = inserted[len(some):]
	}
	return lost, nil
}

// SeriesIn calls each for every bucket, segment and rollup document that may have times in [from, to). The query filter on
// buckets selects the series, and nil selects all. Buckets come with their meta only.
func (r *Rollups) SeriesIn(
	ctx context.Context, o timeseries.Options, levels rollup.Levels, filter bson.Raw, from, to int64, each func(bson.Raw) error,
) error {
	const operation = "reading the list of series"
	selected := func(of timeseries.Options) bson.D {
		conditions := overlapping(of, from, to)
		if filter == nil {
			return conditions
		}
		return bson.D{{Key: "$and", Value: bson.A{filter, conditions}}}
	}
	only := mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}})
	buckets := append(selected(o), timeseries.IsAbsent(timeseries.PathOwner))
	if err := r.find(ctx, operation, r.ports.Buckets, mongodb.Query{Filter: mongodb.Document(buckets), Projection: only}, each); err != nil {
		return err
	}
	// A filter on the meta does not find segments. They are compacted soon, and a pass then computes their rows.
	if filter == nil {
		segments := append(overlapping(o, from, to), timeseries.IsSegment())
		if err := r.find(ctx, operation, r.ports.Buckets, mongodb.Query{Filter: mongodb.Document(segments), Batch: segmentBatch}, each); err != nil {
			return err
		}
	}
	for _, l := range levels {
		if err := r.find(ctx, operation, r.ports.Levels[l.Name], mongodb.Query{Filter: mongodb.Document(selected(l.Options(o))), Projection: only}, each); err != nil {
			return err
		}
	}
	return nil
}

// NestedState is the state of a stored nested document that must be known before it is replaced.
type NestedState struct {
	Revision int64
	Cut      bool
}

// NestedStates returns the states of the documents with the given _ids. A missing document has none.
func (r *Rollups) NestedStates(ctx context.Context, c mongodb.Collection, ids []bson.ObjectID) (map[bson.ObjectID]NestedState, error) {
	states := map[bson.ObjectID]NestedState{}
	q := mongodb.Query{
		Filter:     mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}),
		Projection: mongodb.Document(bson.D{{Key: rollup.FieldRevision, Value: 1}, {Key: rollup.FieldCut, Value: 1}}),
	}
	err := r.find(ctx, "reading nested documents", c, q, func(d bson.Raw) error {
		id, _ := d.Lookup(timeseries.FieldID).ObjectIDOK()
		var s NestedState
		s.Revision, _ = d.Lookup(rollup.FieldRevision).AsInt64OK()
		s.Cut, _ = d.Lookup(rollup.FieldCut).BooleanOK()
		states[id] = s
		return nil
	})
	return states, err
}

// PutNested stores a nested document. Revision 1 is inserted, and any other replaces all fields of the document of the revision
// before. False means that another writer was quicker.
func (r *Rollups) PutNested(ctx context.Context, c mongodb.Collection, id bson.ObjectID, revision int64, nested bson.Raw) (bool, error) {
	done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		if revision == 1 {
			return c.Insert(ctx, []bson.Raw{nested})
		}
		var fields bson.D
		elements, err := nested.Elements()
		if err != nil {
			return mongodb.Reply{}, &mongodb.NotSentError{Err: err}
		}
		for _, e := range elements {
			if e.Key() != timeseries.FieldID {
				fields = append(fields, bson.E{Key: e.Key(), Value: e.Value()})
			}
		}
		return c.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: id}, {Key: rollup.FieldRevision, Value: revision - 1}}),
			Update: mongodb.Set(fields),
		}})
	}))
	return done, mongodb.Failure("storing a nested document", err)
}

// Periods calls each for every document of a level, with its series and the time at which its period begins, in milliseconds.
func (r *Rollups) Periods(ctx context.Context, o timeseries.Options, level string, each func(meta bson.RawValue, from int64)) error {
	q := mongodb.Query{
		Filter:     mongodb.Document(bson.D{}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.MinPath(o.TimeField), Value: 1}}),
	}
	return r.find(ctx, "listing rollup documents", r.ports.Levels[level], q, func(d bson.Raw) error {
		from, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldMin, o.TimeField).DateTimeOK()
		if ok {
			each(d.Lookup(timeseries.FieldMeta), from)
		}
		return nil
	})
}

// Bounds calls each for the bucket or segment with the smallest and with the largest time. It also calls each for all buckets whose
// _ids do not sort by time, because no index finds the first and the last of them. The arguments are the first and the last time, in
// milliseconds; the last is at least a span after the first.
func (r *Rollups) Bounds(ctx context.Context, o timeseries.Options, each func(first, last int64)) error {
	const operation = "reading the first and the last bucket"
	spanning := func(first, last int64) { each(first, max(last, first+o.Span())) }
	inOrder, _ := timeseries.IDsByTime(0)
	for _, order := range []int32{1, -1} {
		one := mongodb.Query{Filter: mongodb.Document(inOrder), Limit: 1, Sort: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: order}})}
		if err := r.times(ctx, operation, r.ports.Buckets, o, one, spanning); err != nil {
			return err
		}
	}
	return r.times(ctx, operation, r.ports.Buckets, o, mongodb.Query{Filter: mongodb.Document(timeseries.IDsOutOfTime())}, spanning)
}

// Unordered calls each for every bucket, segment and rollup document whose _id does not sort by time. The arguments are the first
// and the last time, in milliseconds.
func (r *Rollups) Unordered(ctx context.Context, o timeseries.Options, levels rollup.Levels, each func(first, last int64)) error {
	for _, c := range r.withLevels(levels) {
		query := mongodb.Query{Filter: mongodb.Document(timeseries.IDsOutOfTime())}
		if err := r.times(ctx, "reading the times before 1970 and after 2038", c, o, query, each); err != nil {
			return err
		}
	}
	return nil
}

// After returns the smallest minimum time, from a moment on, of the buckets, segments and rollup documents whose _ids sort by time.
// False means that there is none.
func (r *Rollups) After(ctx context.Context, o timeseries.Options, levels rollup.Levels, from int64) (least int64, found bool, err error) {
	condition, ok := timeseries.IDsByTime(from)
	if !ok {
		return 0, false, nil
	}
	query := mongodb.Query{Filter: mongodb.Document(condition), Limit: 1, Sort: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: int32(1)}})}
	for _, c := range r.withLevels(levels) {
		err := r.times(ctx, "looking for the next bucket", c, o, query, func(first, _ int64) {
			if !found || first < least {
				least, found = first, true
			}
		})
		if err != nil {
			return 0, false, err
		}
	}
	return least, found, nil
}

// withLevels returns the buckets of the time series and of its levels.
func (r *Rollups) withLevels(levels rollup.Levels) []mongodb.Collection {
	all := []mongodb.Collection{r.ports.Buckets}
	for _, l := range levels {
		all = append(all, r.ports.Levels[l.Name])
	}
	return all
}

// times calls each with the first and the last time of the documents that a query finds, in milliseconds.
func (r *Rollups) times(ctx context.Context, operation string, c mongodb.Collection, o timeseries.Options, q mongodb.Query, each func(first, last int64)) error {
	q.Projection = mongodb.Document(bson.D{{Key: timeseries.MinPath(o.TimeField), Value: 1}, {Key: timeseries.MaxPath(o.TimeField), Value: 1}})
	return r.find(ctx, operation, c, q, func(d bson.Raw) error {
		if first, last, ok := timesOf(d, o.TimeField); ok {
			each(first, last)
		}
		return nil
	})
}

// Extents calls each for every bucket of a series, and for every document of its levels with rows of it. The arguments are the
// first and the last time, in milliseconds. The level is empty for buckets.
func (r *Rollups) Extents(ctx context.Context, o timeseries.Options, levels rollup.Levels, meta bson.RawValue, each func(level string, first, last int64)) error {
	query := mongodb.Query{Filter: mongodb.Document(bson.D{timeseries.HasMeta(meta)})}
	read := func(level string, c mongodb.Collection) error {
		return r.times(ctx, "reading the first and the last time of a series", c, o, query, func(first, last int64) { each(level, first, last) })
	}
	if err := read("", r.ports.Buckets); err != nil {
		return err
	}
	for _, l := range levels {
		if err := read(l.Name, r.ports.Levels[l.Name]); err != nil {
			return err
		}
	}
	return nil
}

// timesOf returns the smallest and the largest time of a document, in milliseconds. False means that it lacks one.
func timesOf(d bson.Raw, timeField string) (first, last int64, ok bool) {
	first, begins := d.Lookup(timeseries.FieldControl, timeseries.FieldMin, timeField).DateTimeOK()
	last, ends := d.Lookup(timeseries.FieldControl, timeseries.FieldMax, timeField).DateTimeOK()
	return first, last, begins && ends
}
