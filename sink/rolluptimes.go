package sink

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

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
