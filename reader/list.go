package reader

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// group are the series whose metas MongoDB takes for equal: numbers of different types with one value, and null beside none.
// Nearly always that is one series.
type group struct {
	meta bson.RawValue // Type 0: none
	// exists divides the group of null: true for null, false for none; nil for both, and for all others.
	exists *bool
}

// filter selects the group's buckets. It is an equality, so that the index gives them in the order of time.
func (g group) filter() bson.D {
	equal := bson.D{{Key: "$eq", Value: orNull(g.meta)}}
	if g.exists != nil {
		equal = append(equal, bson.E{Key: "$exists", Value: *g.exists})
	}
	return bson.D{{Key: timeseries.FieldMeta, Value: equal}}
}

// takes tells whether a bucket of this meta belongs to the group: a server also finds arrays that have the meta as an element.
func (g group) takes(meta bson.RawValue) bool {
	return timeseries.Compare(orNull(meta), orNull(g.meta)) == 0 && (g.exists == nil || *g.exists == (meta.Type != 0))
}

// variants divides the group of null in two; others stay as they are.
func (g group) variants() []group {
	if orNull(g.meta).Type != bson.TypeNull {
		return []group{g}
	}
	return []group{{exists: new(false)}, {meta: bson.RawValue{Type: bson.TypeNull}, exists: new(true)}}
}

// orNull is null for a meta that is not there.
func orNull(v bson.RawValue) bson.RawValue {
	if v.Type == 0 {
		v.Type = bson.TypeNull
	}
	return v
}

// groups are those that the plan selects, in the order of their metas.
func (s *Series) groups(ctx context.Context, p *plan) ([]group, error) {
	switch {
	case s.options.MetaField == "":
		return []group{{}}, nil
	case p.whole != nil:
		return []group{{meta: *p.whole}}, nil
	}
	var r retry
	for {
		list, err := s.list(ctx, p)
		if err == nil {
			return list, nil
		}
		if err := r.wait(ctx, err); err != nil {
			return nil, fmt.Errorf("listing the series of %s: %w", s.namespace, err)
		}
	}
}

// lists tells that the series are to be listed.
func (s *Series) lists(p *plan) bool { return s.options.MetaField != "" && p.whole == nil }

// listing is the pipeline that lists them.
func (s *Series) listing(p *plan) bson.A {
	return bson.A{
		bson.D{{Key: "$match", Value: append(s.timeFilter(p), p.meta...)}},
		bson.D{{Key: "$group", Value: bson.D{{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta}}}},
	}
}

func (s *Series) list(ctx context.Context, p *plan) (list []group, err error) {
	answer, err := s.port.aggregate(ctx, s.listing(p))
	err = each(ctx, answer, err, func(d bson.Raw) error {
		list = append(list, group{meta: cloned(idOf(d))})
		return nil
	})
	slices.SortFunc(list, func(a, b group) int { return timeseries.Compare(orNull(a.meta), orNull(b.meta)) })
	return slices.CompactFunc(list, func(a, b group) bool { return timeseries.Compare(orNull(a.meta), orNull(b.meta)) == 0 }), err
}

// Series yields the metas of the series that the query selects, in the order of metas: of those that have buckets which reach
// into its times. Type 0 stands for measurements without meta. The bytes belong to the caller. Metas that differ only in the
// types of numbers (1 and 1.0) come as one.
func (s *Series) Series(ctx context.Context, q Query) iter.Seq2[bson.RawValue, error] {
	return func(yield func(bson.RawValue, error) bool) {
		p, err := s.prepare(ctx, q)
		if err != nil {
			yield(bson.RawValue{}, err)
			return
		}
		groups, err := s.groups(ctx, &p)
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

// first is the meta of the first bucket of the group; false: there is none. Of most that were listed it is known.
func (s *Series) first(ctx context.Context, p *plan, g group) (bson.RawValue, bool, error) {
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
			return cloned(meta), true, nil
		}
	}
}

// scan of the buckets of a group in the plan's time.
func (s *Series) scan(p *plan, g group) *scan {
	return &scan{
		series: s, newest: p.newest,
		request: request{filter: append(g.filter(), s.timeFilter(p)...), projection: p.projection},
	}
}

// reading says what was being done when something failed.
func (s *Series) reading(err error) error { return fmt.Errorf("reading %s: %w", s.namespace, err) }
