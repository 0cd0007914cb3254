package collection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// IndexKind says what an index on buckets is for.
type IndexKind string

// The kinds of indexes. Indexes of users, of the view, of bounds and foreign ones may be dropped and hidden. The others are
// needed.
const (
	IndexOfID       IndexKind = "_id"
	IndexOfSeries   IndexKind = "series"   // for finding buckets again, and for reading a series
	IndexOfView     IndexKind = "view"     // for the newest part of a series in the view; init and run make it again
	IndexOfSources  IndexKind = "source"   // for the stored positions of a partition
	IndexOfSegments IndexKind = "segments" // for reading segments
	IndexOfBounds   IndexKind = "bounds"   // for reading the segments that may have a series; init and run make it again
	IndexOfExpiry   IndexKind = "expiry"   // deletes measurements that are older than the collection keeps
	IndexOfUser     IndexKind = "user"     // on measurements
	IndexForeign    IndexKind = "foreign"  // on buckets, with no equivalent on measurements
)

// Index is an index of a time series.
type Index struct {
	Name string
	Kind IndexKind
	// Buckets is the index as MongoDB has it. User is the index on measurements, without keys if there is no equivalent. An index
	// of users has its partialFilterExpression and expireAfterSeconds in User in terms of measurements.
	Buckets, User timeseries.Index
	// Kept means that the user's own definition is kept beside the index. Otherwise User is derived from Buckets.
	Kept bool
	// Asked means that the index was made for META_INDEXES.
	Asked            bool
	Hidden, Building bool
	// Bytes is the index's size and Uses is how often it was used since Since. -1 means that the server does not tell.
	Bytes, Uses int64
	Since       time.Time
	// Doubts say about a new index why it may not do what its user expects, or what else it does. Only a command that makes an
	// index sets it.
	Doubts []string
}

// needs says what waterwheel or MongoDB needs the indexes of a kind for. Indexes of other kinds may be dropped and hidden.
var needs = map[IndexKind]string{
	IndexOfID:       "MongoDB itself requires it",
	IndexOfSeries:   "consumers and queries find the buckets of a series with it",
	IndexOfSources:  "consumers find the stored positions of their partitions with it; without it each start reads every bucket",
	IndexOfSegments: "queries find segments with it; without it each query scans all buckets for segments",
	IndexOfExpiry:   "it deletes measurements that are older than the collection's expiry",
}

// IndexList are the indexes of a time series.
type IndexList struct {
	Options timeseries.Options
	Indexes []Index
	// Gone holds the names of kept definitions whose index does not exist any more.
	Gone []string
	// NoSizes and NoUses say why the server does not tell sizes and uses. Nil means that it does.
	NoSizes, NoUses error
}

// Definitions returns the indexes on buckets that are not being built, for timeseries.Options.Advise. withID includes the index
// on _id, for queries that bound the _id too.
func (l IndexList) Definitions(withID bool) []timeseries.Index {
	var all []timeseries.Index
	for _, i := range l.Indexes {
		if !i.Building && (withID || i.Kind != IndexOfID) {
			all = append(all, i.Buckets)
		}
	}
	return all
}

// find returns the index of a name.
func (l IndexList) find(name string) (Index, bool) {
	for _, i := range l.Indexes {
		if i.Name == name {
			return i, true
		}
	}
	return Index{}, false
}

// Indexes lists the indexes of the time series in terms of measurements. It returns ErrNotSetUp if there is no such time series.
func (t TimeSeries) Indexes(ctx context.Context) (IndexList, error) {
	s := t.series()
	list, err := s.listIndexes(ctx)
	if err == nil {
		s.addSizes(ctx, &list)
		s.addUses(ctx, &list)
	}
	return list, err
}

// PlainIndexes is Indexes without statistics: sizes, uses, and whether an index is being built.
func (t TimeSeries) PlainIndexes(ctx context.Context) (IndexList, error) {
	return t.series().listIndexes(ctx)
}

// listIndexes lists the indexes without sizes and uses.
func (s *series) listIndexes(ctx context.Context) (list IndexList, err error) {
	have, err := ReadDefinition(ctx, s.ports.Options)
	if err != nil {
		return list, err
	}
	list.Options, s.options = have.Options, have.Options
	kept, err := s.keptIndexes(ctx)
	if err != nil {
		return list, err
	}
	specs, err := s.rawIndexes(ctx)
	if err != nil {
		return list, err
	}
	for _, spec := range specs {
		index := s.indexOf(spec, kept)
		delete(kept, index.Name)
		list.Indexes = append(list.Indexes, index)
	}
	list.Gone = slices.Sorted(maps.Keys(kept))
	return list, nil
}

// rawIndexes returns the specifications of the buckets' indexes with all options.
func (s *series) rawIndexes(ctx context.Context) ([]bson.Raw, error) {
	specs, err := allOf[bson.Raw](ctx)(s.buckets().Indexes().List(ctx))
	return specs, mongodb.Failure("listing indexes", s.db.Translate(err))
}

// indexOf finds out what an index is, with the kept definitions by name.
func (s *series) indexOf(spec bson.Raw, kept map[string]indexDefinition) Index {
	name := nameIn(spec)
	hidden, _ := spec.Lookup("hidden").BooleanOK()
	index := Index{Name: name, Kind: IndexForeign, Buckets: onBuckets(spec), Hidden: hidden, Bytes: -1, Uses: -1}
	_, expires := expiryIn(spec)
	if definition, ok := kept[name]; ok && definition.describes(s.options, index.Buckets) {
		index.Kind, index.User, index.Kept, index.Asked = IndexOfUser, definition.user, true, definition.By == byMetaIndexes
		return index
	}
	switch {
	case name == timeseries.IDIndexName:
		index.Kind = IndexOfID
	case ofAll(spec, s.options.SeriesIndex()):
		index.Kind, index.User.Keys = IndexOfSeries, s.seriesKeys(1)
	case ofAll(spec, viewIndex(s.options)):
		index.Kind, index.User.Keys = IndexOfView, s.seriesKeys(-1)
	case ofAll(spec, timeseries.SourceIndex()):
		index.Kind = IndexOfSources
	case sameKeys(keyIn(spec), segmentIndex(s.options)):
		index.Kind = IndexOfSegments
	case s.isBoundsIndex(spec):
		index.Kind = IndexOfBounds
	case ofAll(spec, expiryIndex(s.options)) && expires:
		index.Kind, index.User.Keys = IndexOfExpiry, mongodb.Document(bson.D{{Key: s.options.TimeField, Value: 1}})
	default:
		if user, ok := s.options.UserIndex(index.Buckets); ok {
			index.Kind, index.User = IndexOfUser, user
		}
	}
	return index
}

// isBoundsIndex reports whether an index is the boundsIndex of a part of the meta, over segments only.
func (s *series) isBoundsIndex(spec bson.Raw) bool {
	partial, _ := spec.Lookup("partialFilterExpression").DocumentOK()
	first, err := keyIn(spec).IndexErr(0)
	if err != nil || s.options.MetaField == "" || !equal(partial, mongodb.Document(bson.D{isSegment()})) {
		return false
	}
	path, ok := strings.CutPrefix(first.Key(), timeseries.MaxPath(""))
	return ok && strings.HasPrefix(path, s.options.MetaField+".") && sameKeys(keyIn(spec), boundsIndex(path))
}

// expiryNow returns the name and the seconds of the index that deletes measurements older than the collection keeps. An index
// with a partial filter is a user's, and deletes only some series.
func (s *series) expiryNow(ctx context.Context) (name string, seconds int64, found bool, err error) {
	specs, err := s.rawIndexes(ctx)
	if err != nil {
		return "", 0, false, err
	}
	for _, spec := range specs {
		if index := s.indexOf(spec, nil); index.Kind == IndexOfExpiry {
			seconds, _ = expiryIn(spec)
			return index.Name, seconds, true, nil
		}
	}
	return "", 0, false, nil
}

// seriesKeys returns the keys of an index of the series and the time in terms of measurements, with the order of the time.
func (s *series) seriesKeys(order int) bson.Raw {
	keys := bson.D{{Key: s.options.TimeField, Value: order}}
	if s.options.MetaField != "" {
		keys = append(bson.D{{Key: s.options.MetaField, Value: 1}}, keys...)
	}
	return mongodb.Document(keys)
}

// onBuckets returns the index that MongoDB describes.
func onBuckets(spec bson.Raw) timeseries.Index {
	return timeseries.Index{Keys: keyIn(spec), Options: mongodb.Document(fieldsOf(spec, "v", "key", "ns"))}
}

// fieldsOf returns the fields of a document without some of them.
func fieldsOf(d bson.Raw, without ...string) bson.D {
	rest := bson.D{}
	elements, _ := d.Elements()
	for _, e := range elements {
		if !slices.Contains(without, e.Key()) {
			rest = append(rest, bson.E{Key: e.Key(), Value: e.Value()})
		}
	}
	return rest
}

// errNotTold means that the server's answer lacks the requested values.
var errNotTold = errors.New("this MongoDB does not report them")

// addSizes asks the server how large each index is.
func (s *series) addSizes(ctx context.Context, list *IndexList) {
	raw, err := s.driver().RunCommand(ctx, bson.D{{Key: "collStats", Value: s.buckets().Name()}}).Raw()
	if err != nil {
		list.NoSizes = s.db.Translate(err)
		return
	}
	sizes, ok := raw.Lookup("indexSizes").DocumentOK()
	if !ok {
		list.NoSizes = errNotTold
		return
	}
	for i := range list.Indexes {
		if n, ok := sizes.Lookup(list.Indexes[i].Name).AsInt64OK(); ok {
			list.Indexes[i].Bytes = n
		}
	}
}

// addUses asks the server how often each index was used since the server started. On a sharded cluster the shards' numbers are
// added.
func (s *series) addUses(ctx context.Context, list *IndexList) {
	type use struct {
		Name     string `bson:"name"`
		Building bool   `bson:"building"`
		Accesses struct {
			Ops   int64     `bson:"ops"`
			Since time.Time `bson:"since"`
		} `bson:"accesses"`
	}
	stats, err := allOf[use](ctx)(s.buckets().Aggregate(ctx, bson.A{bson.D{{Key: "$indexStats", Value: bson.D{}}}}))
	if err != nil {
		list.NoUses = s.db.Translate(err)
		return
	}
	for i := range list.Indexes {
		index := &list.Indexes[i]
		for _, one := range stats {
			if one.Name != index.Name {
				continue
			}
			index.Building = index.Building || one.Building
			index.Uses = max(index.Uses, 0) + one.Accesses.Ops
			if index.Since.IsZero() || one.Accesses.Since.Before(index.Since) {
				index.Since = one.Accesses.Since
			}
		}
	}
	if len(stats) == 0 {
		list.NoUses = errNotTold
	}
}

// CompareMetaIndexes compares the paths of META_INDEXES with the existing indexes. missing are the paths without an index that
// serves them. unasked are the names of indexes that were made for a path which is not in META_INDEXES any more.
func (l IndexList) CompareMetaIndexes(paths []string) (missing, unasked []string) {
	asked := map[string]bool{}
	for _, path := range paths {
		served := false
		for _, i := range l.Indexes {
			if !i.Hidden && l.isOn(i, path) {
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

// isOn reports whether an index of all measurements is on a path and then the time, in any direction.
func (l IndexList) isOn(i Index, path string) bool {
	return !isPartial(i.Buckets.Options) && i.Kind == IndexOfUser && sameKeys(i.User.Keys, metaPathKeys(path, l.Options.TimeField))
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
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
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
