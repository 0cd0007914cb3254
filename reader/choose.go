package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
)

// choice is which of the series in some segments a query selects.
type choice struct {
	all   bool
	metas []bson.RawValue // sorted, each once
	none  bool            // the one without meta, too
	bound *bounds         // Those that meet its equalities, and no others. Nil means that they are listed here.
}

// wholeChoice is the series of one meta; null is also none.
func wholeChoice(meta bson.RawValue) choice {
	return choice{metas: []bson.RawValue{meta}, none: meta.Type == bson.TypeNull}
}

// nothing reports whether no series is selected.
func (c *choice) nothing() bool { return !c.all && !c.none && c.bound == nil && len(c.metas) == 0 }

// takes reports whether the series of a meta is selected.
func (c *choice) takes(meta bson.RawValue) bool {
	switch {
	case c.all:
		return true
	case meta.Type == 0:
		return c.none
	case c.bound != nil:
		return c.bound.takes(meta)
	}
	_, found := slices.BinarySearchFunc(c.metas, meta, timeseries.Compare)
	return found
}

// choose finds out which of the series in the segments that a filter finds the plan selects. Only a server knows what a filter on
// a part of the meta means: it applies it to each meta.
func (s *Series) choose(ctx context.Context, p *plan, segments bson.D) (c choice, err error) {
	switch {
	case s.options.MetaField == "" || len(p.meta) == 0:
		return choice{all: true}, nil
	case p.whole != nil:
		return wholeChoice(*p.whole), nil
	case p.bounds.complete:
		return choice{bound: &p.bounds}, nil
	}
	if len(p.bounds.all) == 0 {
		if c.none, err = s.choosesNone(ctx, p, segments); err != nil {
			return c, err
		}
	}
	answer, err := s.port.aggregate(ctx, s.choosing(p, segments))
	err = each(ctx, answer, err, func(d bson.Raw) error {
		c.metas = append(c.metas, cloned(idOf(d)))
		return nil
	})
	if refuses(err) {
		c.metas, err = s.tryEach(ctx, p, segments)
	}
	slices.SortFunc(c.metas, timeseries.Compare)
	c.metas = slices.CompactFunc(c.metas, func(a, b bson.RawValue) bool { return timeseries.Compare(a, b) == 0 })
	return c, err
}

// choosesNone reports whether the plan selects the series without meta, by trying its filter on a segment without its own meta.
func (s *Series) choosesNone(ctx context.Context, p *plan, segments bson.D) (found bool, err error) {
	answer, err := s.port.aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: segments}},
		bson.D{{Key: "$limit", Value: 1}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldID, Value: 1}}}},
		bson.D{{Key: "$match", Value: p.meta}},
	})
	if found, err = isAny(ctx, answer, err); !refuses(err) {
		return found, err
	}
	there, err := atPlace(p.meta, timeseries.Path(timeseries.FieldMeta, "none")) // which a segment does not have
	if err != nil {
		return false, err
	}
	return s.isThere(ctx, request{filter: both(segments, there), projection: bson.D{{Key: timeseries.FieldID, Value: 1}}, limit: 1})
}

// refuses reports whether a server does not take what was asked.
func refuses(err error) bool {
	refused := (mongo.CommandError{})
	return errors.As(err, &refused) && !transient(err)
}

// both is the filter that finds what two others find.
func both(a, b bson.D) bson.D { return bson.D{{Key: "$and", Value: bson.A{a, b}}} }

// isThere reports whether anything is found.
func (s *Series) isThere(ctx context.Context, r request) (found bool, err error) {
	answer, err := s.port.find(ctx, r)
	return isAny(ctx, answer, err)
}

// isAny reports whether an answer has a document.
func isAny(ctx context.Context, answer documents, err error) (found bool, _ error) {
	err = each(ctx, answer, err, func(bson.Raw) error {
		found = true
		return nil
	})
	return found, err
}

// choosing is the pipeline that lists the selected metas in segments. The column of metas of a damaged one may be anything.
func (s *Series) choosing(p *plan, segments bson.D) bson.A {
	column := timeseries.DataPath(s.options.MetaField)
	readable := bson.D{{Key: column, Value: bson.D{{Key: "$type", Value: "object"}, {Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}}}}}
	return bson.A{
		bson.D{{Key: "$match", Value: both(segments, readable)}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "metas", Value: bson.D{{Key: "$objectToArray", Value: "$" + column}}}}}},
		bson.D{{Key: "$unwind", Value: "$metas"}},
		bson.D{{Key: "$project", Value: bson.D{{Key: timeseries.FieldMeta, Value: "$metas.v"}}}},
		bson.D{{Key: "$match", Value: p.meta}},
		bson.D{{Key: "$group", Value: bson.D{{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta}}}},
	}
}

// tryEach lists the same where the server has no such pipeline: it asks of each meta whether the segment that it was met in is
// found by the filter on its place there.
func (s *Series) tryEach(ctx context.Context, p *plan, segments bson.D) (metas []bson.RawValue, err error) {
	column := timeseries.DataPath(s.options.MetaField)
	type place struct {
		segment bson.RawValue
		path    string
		meta    bson.RawValue
	}
	var places []place
	met := map[string]bool{}
	answer, err := s.port.find(ctx, request{filter: segments, projection: bson.D{{Key: column, Value: 1}}})
	err = each(ctx, answer, err, func(segment bson.Raw) error {
		for index, meta := range members(bson.Raw(segment.Lookup(timeseries.FieldData, s.options.MetaField).Value)) {
			if key := keyOf(meta); !met[key] {
				met[key] = true
				places = append(places, place{cloned(idOf(segment)), column + "." + index, cloned(meta)})
			}
		}
		return nil
	})
	for _, at := range places {
		if err != nil {
			break
		}
		var there bson.D
		if there, err = atPlace(p.meta, at.path); err != nil {
			break
		}
		var found bool
		found, err = s.isThere(ctx, request{
			filter:     both(bson.D{{Key: timeseries.FieldID, Value: at.segment}}, there),
			projection: bson.D{{Key: timeseries.FieldID, Value: 1}}, limit: 1,
		})
		if found {
			metas = append(metas, at.meta)
		}
	}
	return metas, err
}

// atPlace is a filter on the meta as one on what stands at a path.
func atPlace(filter bson.D, path string) (bson.D, error) {
	moved := make(bson.D, 0, len(filter))
	for _, e := range filter {
		below, ofMeta := strings.CutPrefix(e.Key, timeseries.FieldMeta)
		switch {
		case ofMeta:
			e.Key = path + below
		case e.Key == "$comment":
		case e.Key == "$and" || e.Key == "$or" || e.Key == "$nor":
			clauses, err := atPlaces(e.Value.(bson.RawValue), path)
			if err != nil {
				return nil, err
			}
			e.Value = clauses
		default:
			return nil, &QueryError{fmt.Errorf("this server cannot try %s on measurements that are not in buckets yet", e.Key)}
		}
		moved = append(moved, e)
	}
	return moved, nil
}

func atPlaces(clauses bson.RawValue, path string) (moved bson.A, err error) {
	list, err := clauses.Array().Values()
	if err != nil {
		return nil, err
	}
	for _, clause := range list {
		filter, err := atPlace(normalQuery(clause.Document(), 0), path)
		if err != nil {
			return nil, err
		}
		moved = append(moved, filter)
	}
	return moved, nil
}
