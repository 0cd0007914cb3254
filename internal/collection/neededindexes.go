package collection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// indexes returns the keys of the indexes that every time series has. One is for reopening buckets and reading a series, the
// other for the stored positions of a partition.
func (s *series) indexes() []bson.D {
	if s.rollupOf != "" { // its documents have no source
		return []bson.D{s.options.SeriesIndex()}
	}
	return []bson.D{s.options.SeriesIndex(), timeseries.SourceIndex()}
}

// viewIndex finds the newest part of a series for a query on the view. MongoDB's stage for unpacking turns a lower bound of the
// time into a bound of control.max.<time>. Only later versions also make one of control.min.<time>. In older versions a query by
// an index that begins with the minimum would read the whole history of the series. Readers and consumers use the index of series
// all the same. The maximum changes with every write to a bucket, so a scan in its order may meet a bucket twice, or never.
func viewIndex(o timeseries.Options) bson.D {
	return bson.D{
		{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.MaxPath(o.TimeField), Value: -1}, {Key: timeseries.MinPath(o.TimeField), Value: -1},
	}
}

func expiryIndex(o timeseries.Options) bson.D {
	return bson.D{{Key: timeseries.MinPath(o.TimeField), Value: 1}}
}

// segmentIndex finds segments among the buckets, by owner and time. It is partial and holds no bucket.
func segmentIndex(o timeseries.Options) bson.D {
	return bson.D{{Key: timeseries.PathOwner, Value: 1}, {Key: timeseries.MinPath(o.TimeField), Value: 1}}
}

// createViewIndex makes the index of a view with MongoDB's own stage. The documented stages use no index. A single series needs
// none either, because the _id begins with the time.
func (s *series) createViewIndex(ctx context.Context) error {
	if s.view != ViewInternal || s.options.MetaField == "" {
		return nil
	}
	return s.createNeeded(ctx, viewIndex(s.options))
}

// createNeeded makes an index of all buckets, unless there is one under any name.
func (s *series) createNeeded(ctx context.Context, keys bson.D) error {
	err := s.createIndex(ctx, keys, options.Index())
	if err == nil {
		return nil
	}
	specs, listing := s.rawIndexes(ctx)
	if listing == nil && slices.ContainsFunc(specs, func(spec bson.Raw) bool { return servesAs(spec, keys) }) {
		return nil
	}
	return err
}

// boundsIndex finds the segments that may have a value at a path of the meta, in any series. It is partial like segmentIndex.
// Segments of several flushes mostly have the same bounds, so a query skips all of them at once.
func boundsIndex(path string) bson.D {
	return bson.D{{Key: timeseries.MaxPath(path), Value: 1}, {Key: timeseries.MinPath(path), Value: 1}}
}

// isOfSegments reports whether the keys are those of an index of segments.
func isOfSegments(keys bson.D) bool {
	return keys[0].Key == timeseries.PathOwner || strings.HasPrefix(keys[0].Key, timeseries.MaxPath(""))
}

// segmentIndexes returns the keys of the indexes of segments.
func (s *series) segmentIndexes() []bson.D {
	all := []bson.D{segmentIndex(s.options)}
	for _, path := range s.settings.MetaPaths {
		all = append(all, boundsIndex(path))
	}
	return all
}

// createSegmentIndexes makes the indexes of segments.
func (s *series) createSegmentIndexes(ctx context.Context) error {
	for _, keys := range s.segmentIndexes() {
		err := s.createIndex(ctx, keys, options.Index().SetPartialFilterExpression(bson.D{isSegment()}))
		if refused, ok := errors.AsType[*mongodb.RefusedError](err); ok && refused.Code == mongodb.CodeParallelArrays {
			s.log().Warn("an index for META_INDEXES cannot be created on segments, because some metas have arrays in the path of the index: queries read all segments", "err", err)
			continue
		}
		if err := s.withoutIndex("all buckets are scanned to find segments", err); err != nil {
			return err
		}
	}
	return nil
}

// withoutIndex continues without an index that the user may not create, and logs the consequence.
func (s *series) withoutIndex(consequence string, err error) error {
	if !mongodb.LacksRight(err) {
		return err
	}
	s.log().Warn("this user may not create an index: "+consequence, "err", err)
	return nil
}

// createIndexes makes the indexes. It leaves alone an expiry that keeps buckets longer than the options say, because an operator
// may be about to change the options.
func (s *series) createIndexes(ctx context.Context) error {
	for _, keys := range s.indexes() {
		if err := s.createNeeded(ctx, keys); err != nil {
			return err
		}
	}
	have, err := s.Expiry(ctx)
	want := s.options.TTLSeconds()
	switch {
	case err != nil:
		return err
	case have == 0:
		return s.withoutIndex("measurements are kept for ever, unless `waterwheel collection expire` deletes them", s.createExpiry(ctx, want))
	case want != 0 && want < have:
		s.log().Warn("measurements are kept longer than the collection's options say: run the interrupted `waterwheel collection set-expiry` again",
			"for", time.Duration(have-s.options.MaxSpanSeconds)*time.Second, "should_be", lifetime(s.options))
	}
	return widen(ctx, s, s.options)
}

func (s *series) createIndex(ctx context.Context, keys bson.D, o *options.IndexOptionsBuilder) error {
	_, err := s.buckets().Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys, Options: o})
	err = s.db.Translate(err)
	switch {
	case err == nil:
	case mongodb.LacksRight(err):
		return s.unlessThere(ctx, keys, mongodb.Failure("creating indexes", err))
	case mongodb.HasCode(err, mongodb.CodeNotImplemented) && slices.Equal(keys, expiryIndex(s.options)):
		s.log().Warn("this MongoDB does not expire documents: measurements are kept for ever, unless `waterwheel collection expire` deletes them")
	case mongodb.HasCode(err, mongodb.CodeNotImplemented) && isOfSegments(keys):
		s.log().Info("this MongoDB has no partial indexes: all buckets are scanned to find segments")
	case mongodb.HasCode(err, mongodb.CodeIndexOptionsConflict, mongodb.CodeIndexKeySpecsConflict):
		return fmt.Errorf("an index on %v exists with other options: drop this index: %w", keys, err)
	default:
		return mongodb.Failure("creating indexes", err)
	}
	return nil
}

// unlessThere returns the error about an index that the user may not create. Nil means that the index already exists.
func (s *series) unlessThere(ctx context.Context, keys bson.D, refused error) error {
	specs, err := s.rawIndexes(ctx)
	if err != nil || hasIndex(specs, keys) {
		return err
	}
	return refused
}

// hasIndex reports whether there is an index on these keys, of all buckets or of all segments.
func hasIndex(specs []bson.Raw, keys bson.D) bool {
	return slices.ContainsFunc(specs, func(spec bson.Raw) bool {
		return ofAll(spec, keys) || isOfSegments(keys) && sameKeys(keyIn(spec), keys)
	})
}

// checkIndexes returns ErrNotSetUp if an index is missing.
func (s *series) checkIndexes(ctx context.Context) error {
	specs, err := s.rawIndexes(ctx)
	if err != nil {
		return err
	}
	for _, keys := range s.indexes() {
		if !hasIndex(specs, keys) {
			return fmt.Errorf("%w (no index on %v)", ErrNotSetUp, keys)
		}
	}
	return nil
}

// ofAll reports whether an index over all buckets has these keys.
func ofAll(spec bson.Raw, keys bson.D) bool { return sameKeys(keyIn(spec), keys) && !isPartial(spec) }

// keyIn returns the keys of an index.
func keyIn(spec bson.Raw) bson.Raw {
	key, _ := spec.Lookup("key").DocumentOK()
	return key
}

// nameIn returns the name of an index.
func nameIn(spec bson.Raw) string {
	name, _ := spec.Lookup("name").StringValueOK()
	return name
}

// named returns the index of a name. Nil means that there is none.
func named(specs []bson.Raw, name string) bson.Raw {
	for _, spec := range specs {
		if nameIn(spec) == name {
			return spec
		}
	}
	return nil
}

// isPartial reports whether an index leaves out some documents.
func isPartial(spec bson.Raw) bool {
	_, partial := spec.Lookup("partialFilterExpression").DocumentOK()
	return partial
}

// expiryIn returns after how many seconds an index deletes documents. False means that it deletes none.
func expiryIn(spec bson.Raw) (seconds int64, expires bool) {
	return spec.Lookup("expireAfterSeconds").AsInt64OK()
}

// servesAs reports whether an index over all buckets has these keys in these directions, and deletes nothing.
func servesAs(spec bson.Raw, keys bson.D) bool {
	_, expires := expiryIn(spec)
	_, collated := spec.Lookup("collation").DocumentOK()
	return ofAll(spec, keys) && equal(keyIn(spec), mongodb.Document(keys)) && !expires && !collated
}

// sameKeys compares the fields of index keys, and ignores directions.
func sameKeys(have bson.Raw, want bson.D) bool {
	elements, err := have.Elements()
	return err == nil && slices.EqualFunc(elements, want, func(h bson.RawElement, w bson.E) bool { return h.Key() == w.Key })
}

// isSegment is the condition of indexes of segments.
func isSegment() bson.E { return timeseries.IsPresent(timeseries.PathOwner) }
