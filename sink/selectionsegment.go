package sink

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// maxMatched bounds the metas of which one query on scratch documents finds out whether they are selected.
const maxMatched = 1000

// segmentSelection is what a Selection knows of segments.
type segmentSelection struct {
	collection timeseries.Options
	clock      func(ctx context.Context) (time.Time, error)
	none       bool // the collection has no segments: they need not be looked for
	begun      bool
	planned    int64           // MongoDB's clock when the selection was first used, in milliseconds since 1970
	metas      map[string]bool // all series, selected or not, that segments had when they were looked at last
}

// WithSegments makes a Selection tell segments from buckets: its query then finds buckets, and the measurements in segments of
// which it finds the metas. Clock is MongoDB's.
func (s *Selection) WithSegments(collection timeseries.Options, clock func(ctx context.Context) (time.Time, error)) *Selection {
	s.segments = &segmentSelection{collection: collection, clock: clock}
	return s
}

// begin asks for the time, once.
func (s *Selection) begin(ctx context.Context) error {
	if s.segments == nil || s.segments.none || s.segments.begun {
		return nil
	}
	now, err := s.segments.clock(ctx)
	if err != nil {
		return err
	}
	s.segments.planned, s.segments.begun = now.UnixMilli(), true
	return nil
}

// stagedOne is a selected series that segments have.
type stagedOne struct {
	meta bson.RawValue
	live int64 // measurements in segments that have not ended: those of the others are in buckets as well
}

// stagedSeries looks at the metas of all segments, and returns those that are selected.
func (s *Selection) stagedSeries(ctx context.Context) ([]stagedOne, error) {
	if s.segments == nil || s.segments.none {
		return nil, nil
	}
	index, held := map[string]int{}, 0
	var all []stagedOne
	var metas []bson.RawValue
	err := s.buckets.Find(ctx, s.segments.query(), func(d bson.Raw) error {
		_, ended := endedBy(d)
		s.segments.collection.SegmentMetas(d, func(meta bson.RawValue, n int64) {
			i, known := index[seriesOf(meta)]
			if !known {
				i, held = len(all), held+len(meta.Value)+seriesOverhead
				meta = cloned(meta)
				index[seriesOf(meta)] = i
				all, metas = append(all, stagedOne{meta: meta}), append(metas, meta)
			}
			if !ended {
				all[i].live += n
			}
		})
		if held > maxSelectedBytes {
			return fmt.Errorf("segments have more than %d series, whose metas would take more than %d MiB of memory", len(all), maxSelectedBytes>>20)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.segments.metas = make(map[string]bool, len(all))
	for series := range index {
		s.segments.metas[series] = true
	}
	selected, err := s.matching(ctx, metas)
	if err != nil {
		return nil, err
	}
	var some []stagedOne
	for i := range all {
		if selected[i] {
			some = append(some, all[i])
		}
	}
	return some, nil
}

// isStaged tells whether there are measurements of a series, selected or not, in segments.
func (s *Selection) isStaged(ctx context.Context, series string) (bool, error) {
	if s.segments == nil {
		return false, nil
	}
	if s.segments.metas == nil {
		if _, err := s.stagedSeries(ctx); err != nil {
			return false, err
		}
	}
	return s.segments.metas[series], nil
}

// query finds all segments, with what is needed to see which series they have.
func (s *segmentSelection) query() Query {
	fields := bson.D{{Key: timeseries.PathSegment, Value: 1}, {Key: timeseries.PathCount, Value: 1}}
	if field := s.collection.MetaField; field != "" {
		fields = append(fields, bson.E{Key: timeseries.DataPath(field), Value: 1})
	}
	return Query{Filter: document(bson.D{isSegment()}), Projection: document(fields), Batch: storedBatch}
}

// isSegment is the condition that a document is a segment.
func isSegment() bson.E {
	return bson.E{Key: timeseries.PathLow, Value: bson.D{{Key: "$gte", Value: int32(0)}}}
}

// endedBy is the settling that ended a segment; false: it has not ended.
func endedBy(d bson.Raw) (string, bool) {
	by := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment, timeseries.FieldBy)
	return string(by.Value), by.Type != 0
}

// matching tells of metas whether the query finds them. A server evaluates queries on documents only, and nobody but it knows
// all of its operators: so the metas are put into scratch documents, where the query finds them as in buckets.
func (s *Selection) matching(ctx context.Context, metas []bson.RawValue) ([]bool, error) {
	selected := make([]bool, len(metas))
	if elements, err := s.query.Elements(); err == nil && len(elements) == 0 {
		for i := range selected {
			selected[i] = true
		}
		return selected, nil
	}
	for from := 0; from < len(metas); {
		n := chunkOf(metas[from:], maxMatched)
		err := s.onScratch(ctx, metas[from:from+n], func(ctx context.Context, scratch *scratchMetas) error {
			filter := document(bson.D{scratch.every(), {Key: "$and", Value: bson.A{s.query}}})
			return s.options.Find(ctx, Query{Filter: filter}, func(d bson.Raw) error {
				if i, ok := scratch.index(d); ok {
					selected[from+i] = true
				}
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		from += n
	}
	return selected, nil
}
