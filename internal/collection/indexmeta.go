package collection

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// CompareMetaIndexes compares the paths of META_INDEXES with the existing indexes. missing are the paths without an index that
// serves them. unasked are the names of indexes that were made for a path which is not in META_INDEXES any more.
func (l IndexList) CompareMetaIndexes(paths []string) (missing, unasked []string) {
	asked := map[string]bool{}
	for _, path := range paths {
		served := false
		for _, i := range l.Indexes {
			if l.serves(i, path) {
				served, asked[i.Name] = true, true
			}
		}
		if !served {
			missing = append(missing, path)
		}
	}
	for _, i := range l.Indexes {
		if i.Asked && !asked[i.Name] {
			unasked = append(unasked, i.Name)
		}
	}
	return missing, unasked
}

// serves reports whether queries for a path can use an index.
func (l IndexList) serves(i Index, path string) bool { return !i.Hidden && l.isOn(i, path) }

// isOn reports whether an index of all measurements is on a path and then the time, in any direction.
func (l IndexList) isOn(i Index, path string) bool {
	_, partial := i.Buckets.Options.Lookup("partialFilterExpression").DocumentOK()
	return !partial && i.Kind == IndexOfUser && sameKeys(i.User.Keys, metaPathKeys(path, l.Options.TimeField))
}

// metaPathKeys returns the keys of the index on measurements that META_INDEXES makes for a path. The time descends for the same
// reason as in viewIndex.
func metaPathKeys(path, timeField string) bson.D {
	return bson.D{{Key: path, Value: int32(1)}, {Key: timeField, Value: int32(-1)}}
}

// MissingMetaIndexes returns the paths of META_INDEXES without an index. A hidden index counts, because an operator hides it to
// see the effect of its absence.
func (t TimeSeries) MissingMetaIndexes(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	list, err := t.series().listIndexes(ctx)
	if err != nil {
		return nil, err
	}
	missing, _ := list.CompareMetaIndexes(paths)
	return slices.DeleteFunc(missing, func(path string) bool {
		return slices.ContainsFunc(list.Indexes, func(i Index) bool { return list.isOn(i, path) })
	}), nil
}

// CreateMetaIndex makes the index for a path of META_INDEXES, on that path and the time. Several consumers may do it at once.
func (t TimeSeries) CreateMetaIndex(ctx context.Context, path string) (Index, bool, error) {
	have, err := ReadDefinition(ctx, t.Ports().Options)
	if err != nil {
		return Index{}, false, err
	}
	keys := mongodb.Document(metaPathKeys(path, have.TimeField))
	index, made, err := t.createIndex(ctx, timeseries.Index{Keys: keys}, byMetaIndexes)
	if err != nil {
		return index, made, fmt.Errorf("the index of META_INDEXES on %s: %w", path, err)
	}
	return index, made, nil
}
