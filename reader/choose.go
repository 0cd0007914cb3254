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

// choice is the set of series in some segments that a query selects.
type choice struct {
	all   bool
	metas []bson.RawValue // sorted, each once
	none  bool            // also the series without meta
	bound *bounds         // Its equalities select the series, and metas is empty. Nil means that the other fields select them.
}

// wholeChoice selects the series of one meta. A null meta also selects the series without meta.
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

// choose determines which series the plan selects among those in the segments that a filter finds. Only a server knows what a
// filter on a part of the meta means. So choose asks the server to apply the filter to each meta.
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
		refusal := err
		c.metas, err = s.tryEach(ctx, p, segments)
		err = because(err, refusal)
	}
	slices.SortFunc(c.metas, timeseries.Compare)
	c.metas = slices.CompactFunc(c.metas, func(a, b bson.RawValue) bool { return timeseries.Compare(a, b) == 0 })
	return c, err
}

// choosesNone reports whether the plan selects the series without meta. It tries the plan's filter on a segment from which it has
// removed the meta.
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
	there, moved := atPlace(p.meta, timeseries.Path(timeseries.FieldMeta, "none")) // a segment has nothing at this path
	if moved != nil {
		return false, because(moved, err)
	}
	return s.isThere(ctx, request{filter: both(segments, there), projection: bson.D{{Key: timeseries.FieldID, Value: 1}}, limit: 1})
}

// refuses reports whether the server rejected the command itself.
func refuses(err error) bool {
	refused := (mongo.CommandError{})
	return errors.As(err, &refused) && !transient(err)
}

// because adds the server's refusal of a pipeline to the error of a filter that cannot be applied without this pipeline. The filter
// itself may be wrong.
func because(err, refusal error) error {
	if errors.As(err, new(*QueryError)) {
		return &QueryError{fmt.Errorf("%w. The server's answer: %w", err, refusal)}
	}
	return err
}

// both returns the conjunction of two filters.
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

// choosing is the pipeline that lists the selected metas in segments. In a damaged segment, the column of metas may have any
// type.
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

// tryEach lists the same metas on a server that cannot run the choosing pipeline. It asks about each meta separately: it applies
// the filter to the path of the meta within its segment.
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

// atPlace rewrites a filter on the meta into a filter on the value at a path.
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
			return nil, &QueryError{fmt.Errorf("this server cannot apply %s to measurements that are still in segments: write the filter without %[1]s", e.Key)}
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
