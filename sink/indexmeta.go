package sink

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// MetaIndexes is what META_INDEXES asks for, compared with the indexes that there are.
type MetaIndexes struct {
	// Missing are the paths on the meta that no index serves.
	Missing []string
	// Unasked are the names of indexes that were made for a path which is not asked for any more.
	Unasked []string
}

// CompareMetaIndexes compares the paths of META_INDEXES with the indexes that there are.
func (l IndexList) CompareMetaIndexes(paths []string) (c MetaIndexes) {
	asked := map[string]bool{}
	for _, path := range paths {
		served := false
		for _, i := range l.Indexes {
			if l.serves(i, path) {
				served, asked[i.Name] = true, true
			}
		}
		if !served {
			c.Missing = append(c.Missing, path)
		}
	}
	for _, i := range l.Indexes {
		if i.Asked && !asked[i.Name] {
			c.Unasked = append(c.Unasked, i.Name)
		}
	}
	return c
}

// serves reports whether queries can use an index that is on a path.
func (l IndexList) serves(i Index, path string) bool { return !i.Hidden && l.isOn(i, path) }

// isOn reports whether an index is on a path and then the time, in whatever direction, of all measurements.
func (l IndexList) isOn(i Index, path string) bool {
	_, partial := i.Buckets.Options.Lookup("partialFilterExpression").DocumentOK()
	return !partial && i.Kind == IndexOfUser && sameKeys(i.User.Keys, metaPathKeys(path, l.Options.TimeField))
}

// metaPathKeys are the keys of the index on measurements that META_INDEXES makes for a path. The time descends for the same reason
// as in viewIndex.
func metaPathKeys(path, timeField string) bson.D {
	return bson.D{{Key: path, Value: int32(1)}, {Key: timeField, Value: int32(-1)}}
}

// MissingMetaIndexes are the paths of META_INDEXES that no index is on. One that is hidden counts: an operator tries how it goes
// without it.
func (t TimeSeries) MissingMetaIndexes(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	list, err := t.series().listIndexes(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.CompareMetaIndexes(paths).Missing, func(path string) bool {
		return slices.ContainsFunc(list.Indexes, func(i Index) bool { return list.isOn(i, path) })
	}), nil
}

// CreateMetaIndex makes the index of a path of META_INDEXES: on that path and the time. Several consumers may do it at once.
func (t TimeSeries) CreateMetaIndex(ctx context.Context, path string) (Index, bool, error) {
	have, err := readDefinition(ctx, t.Ports().Options)
	if err != nil {
		return Index{}, false, err
	}
	keys := mongodb.Document(metaPathKeys(path, have.TimeField))
	index, made, err := t.CreateIndex(ctx, timeseries.Index{Keys: keys}, ByMetaIndexes)
	if err != nil {
		return index, made, fmt.Errorf("the index of META_INDEXES on %s: %w", path, err)
	}
	return index, made, nil
}
