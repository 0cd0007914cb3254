package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// group is the series whose metas compare as equal in MongoDB. Such metas are numbers of different types with one value, or null
// and a missing meta. Nearly always a group is one series.
type group struct {
	meta bson.RawValue // Type 0 means no meta.
	// exists divides the group of null: true selects null, and false selects a missing meta. Nil selects both. All other groups
	// have nil.
	exists *bool
	// inSegments are the group's measurements in segments.
	inSegments []*held
}

// compare orders groups by their metas. Zero means that the metas are equal in MongoDB.
func (g group) compare(o group) int { return timeseries.Compare(orNull(g.meta), orNull(o.meta)) }

// filter selects the group's buckets. It is an equality, so the index returns them in the order of time.
func (g group) filter() bson.D {
	equal := bson.D{{Key: "$eq", Value: orNull(g.meta)}}
	if g.exists != nil {
		equal = append(equal, bson.E{Key: "$exists", Value: *g.exists})
	}
	return bson.D{{Key: timeseries.FieldMeta, Value: equal}}
}

// takes reports whether a bucket of this meta belongs to the group. The filter also finds arrays with the meta as an element.
func (g group) takes(meta bson.RawValue) bool {
	return timeseries.Compare(orNull(meta), orNull(g.meta)) == 0 && (g.exists == nil || *g.exists == (meta.Type != 0))
}

// variants divides the group of null in two. It returns any other group as it is.
func (g group) variants() []group {
	if orNull(g.meta).Type != bson.TypeNull {
		return []group{g}
	}
	both := []group{{exists: new(false)}, {meta: bson.RawValue{Type: bson.TypeNull}, exists: new(true)}}
	for i := range both {
		both[i].inSegments = slices.DeleteFunc(slices.Clone(g.inSegments), func(h *held) bool { return !both[i].takes(h.current.Meta) })
	}
	return both
}

// orNull returns null for a missing meta.
func orNull(v bson.RawValue) bson.RawValue {
	if v.Type == 0 {
		v.Type = bson.TypeNull
	}
	return v
}

// groups returns the groups that the plan selects, in the order of their metas, with their measurements in segments. bad is
// called for segments that cannot be read.
func (s *Series) groups(ctx context.Context, p *plan, bad func(bson.Raw, error) error) ([]group, error) {
	inSegments, err := s.inSegments(ctx, p, bad)
	switch {
	case errors.Is(err, errEnough):
		return nil, err
	case err != nil:
		return nil, s.reading(fmt.Errorf("reading segments: %w", err))
	}
	list, err := s.inBuckets(ctx, p)
	for _, h := range inSegments {
		list = append(list, group{meta: h.current.Meta, inSegments: []*held{h}})
	}
	slices.SortStableFunc(list, group.compare)
	return united(list), err
}

// united merges equal neighbours.
func united(list []group) []group {
	kept := list[:0]
	for _, g := range list {
		if last := len(kept) - 1; last >= 0 && kept[last].compare(g) == 0 {
			kept[last].inSegments = append(kept[last].inSegments, g.inSegments...)
			continue
		}
		kept = append(kept, g)
	}
	return kept
}

// inBuckets returns the group that the plan names, or the groups that have buckets.
func (s *Series) inBuckets(ctx context.Context, p *plan) (list []group, err error) {
	switch {
	case s.options.MetaField == "":
		return []group{{}}, nil
	case p.whole != nil:
		return []group{{meta: *p.whole}}, nil
	}
	err = persist(ctx, func() (err error) {
		list, err = s.list(ctx, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the series of %s: %w", s.namespace, err)
	}
	return list, nil
}

// lists reports whether the plan requires a listing of the series.
func (s *Series) lists(p *plan) bool { return s.options.MetaField != "" && p.whole == nil }

// listing is the pipeline that lists the selected series. It may list series that have no bucket which is shown. To exclude them
// the server would have to read every document, whereas the index alone has the metas. It also lists the metas of segments,
// because no condition that excludes them is served by the index. There are at most 4,096 of those.
func (s *Series) listing(p *plan) bson.A {
	return bson.A{
		bson.D{{Key: "$match", Value: append(append(s.timeFilter(p), idFilter(p)...), p.meta...)}},
		bson.D{{Key: "$group", Value: bson.D{{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta}}}},
	}
}

func (s *Series) list(ctx context.Context, p *plan) (list []group, err error) {
	answer, err := s.port.aggregate(ctx, s.listing(p))
	err = each(ctx, answer, err, func(d bson.Raw) error {
		if meta := idOf(d); !timeseries.IsSegmentMeta(meta) {
			list = append(list, group{meta: timeseries.Clone(meta)})
		}
		return nil
	})
	return list, err
}

// Series yields the metas of the series that the query selects, in the order of metas. A series counts if it has a bucket that
// overlaps the query's times, or measurements in segments. Type 0 stands for measurements without meta. The bytes belong to the
// caller. Metas that differ only in the types of numbers (1 and 1.0) come as one.
func (s *Series) Series(ctx context.Context, q Query) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		p, err := s.prepare(ctx, q)
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		s.wantMetas(&p)
		groups, err := s.groups(ctx, &p, leaveOut)
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		n := int64(0)
		for _, g := range groups {
			for _, g := range g.variants() {
				meta, found, err := s.first(ctx, &p, g)
				if err != nil {
					yield(bson.RawValue{}, s.reading(err))
					return
				}
				if !found {
					continue
				}
				if n++; !yield(meta, nil) || n == p.limit {
					return
				}
			}
		}
	}
}

// leaveOut ignores a segment that cannot be read, for callers that want no measurements.
func leaveOut(bson.Raw, error) error { return nil }

// first returns the meta of the first bucket of the group. False means that there is none. It needs no query for most listed
// groups.
func (s *Series) first(ctx context.Context, p *plan, g group) (bson.RawValue, bool, error) {
	if len(g.inSegments) > 0 {
		return g.inSegments[0].current.Meta, true, nil
	}
	if s.lists(p) && g.exists == nil {
		return g.meta, true, nil
	}
	buckets := s.scan(p, g)
	buckets.request.projection = bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: s.minPath(), Value: 1}}
	defer buckets.close(ctx)
	for {
		ok, err := buckets.next(ctx)
		if !ok || err != nil {
			return bson.RawValue{}, false, err
		}
		if meta := metaOf(buckets.current); g.takes(meta) {
			return timeseries.Clone(meta), true, nil
		}
	}
}

// scan returns a scan of the group's buckets in the plan's times.
func (s *Series) scan(p *plan, g group) *scan {
	filter := append(g.filter(), s.shownFilter(p)...)
	return &scan{series: s, newest: p.newest, request: request{filter: filter, projection: p.projection}}
}

// shownFilter selects the buckets that are shown and may hold measurements in the plan's times.
func (s *Series) shownFilter(p *plan) bson.D {
	filter := s.timeFilter(p)
	if p.segments {
		filter = append(filter, timeseries.BucketsShown(p.now)...)
	}
	return filter
}

// reading adds the name of the series to an error.
func (s *Series) reading(err error) error { return fmt.Errorf("reading %s: %w", s.namespace, err) }
