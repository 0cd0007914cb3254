package sink

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

	"waterwheel/internal/timeseries"
)

// Setup makes the collections of a time series as far as they are missing, and returns its Store: the options document,
// the buckets, compressed by zstd where the server lets a collection choose, their indexes, the view. maxCount is the number of
// measurements from which a bucket is full. Several consumers may do it at once. A *MismatchError says that the time series
// exists with other options.
func (d *Database) Setup(ctx context.Context, name string, o timeseries.Options, maxCount int32) (*Store, error) {
	return d.open(ctx, name, o, maxCount, func(s *series) error {
		if err := s.refuseForeign(ctx); err != nil {
			return err
		}
		if err := s.define(ctx); err != nil {
			return err
		}
		if err := s.createBuckets(ctx); err != nil {
			return err
		}
		if err := s.createReading(ctx); err != nil {
			return err
		}
		s.decideSegments()
		s.textOrder = s.setsInTextOrder(ctx)
		return nil
	})
}

// createReading makes the indexes and the view, again when the options were changed meanwhile: a view of a smaller span does
// not show all that buckets of a larger one hold, and nothing may expire that is to be kept now. Segments begin here: they are noted
// for good only when all that they need is there, and then it is looked at again, since another consumer may have made the view
// as it was before.
func (s *series) createReading(ctx context.Context) error {
	begins, err := s.beginsSegments(ctx)
	if err != nil {
		return err
	}
	for indexed := false; ; {
		s.segments = s.segments || begins
		made, segments := s.options, s.segments
		if err := s.createIndexes(ctx); err != nil {
			return err
		}
		if segments && !indexed { // before the view, which looks for segments by it
			if err := s.createSegmentIndexes(ctx); err != nil {
				return err
			}
			indexed = true
		}
		if begins {
			err = s.beginSegments(ctx)
		} else {
			err = s.arrangeOptionalView(ctx)
		}
		if begins && LacksRight(err) && s.o.Segments == SegmentsAuto {
			if err := s.postponeSegments(ctx, err); err != nil {
				return err
			}
			begins, s.segments = false, false
			continue
		}
		if err != nil {
			return err
		}
		if err := s.withoutIndex("a query of one series through the view reads its whole history", s.createViewIndex(ctx)); err != nil {
			return err
		}
		if err := s.define(ctx); err != nil || !begins && s.options == made && s.segments == segments {
			return err
		}
		begins = false
	}
}

// Check is Setup without making anything: ErrNotSetUp tells that something is missing, and that nothing foreign has the name.
func (d *Database) Check(ctx context.Context, name string, o timeseries.Options, maxCount int32) (*Store, error) {
	return d.open(ctx, name, o, maxCount, func(s *series) error {
		have, err := readDefinition(ctx, s.ports.Options)
		if errors.Is(err, ErrNotSetUp) {
			if foreign := s.refuseForeign(ctx); foreign != nil && !LacksRight(foreign) {
				return foreign
			}
		}
		if err != nil {
			return err
		}
		if err := s.adopt(have); err != nil {
			return err
		}
		return s.checkIndexes(ctx)
	})
}

// series is a time series that is set up, or looked at.
type series struct {
	*Database
	name    string
	options timeseries.Options
	ports   Ports
	// segments: the definition says that it has segments; shown: its view shows what is to be shown of them; blind: its view knows
	// nothing of them; filling: new ones are written.
	segments, shown, blind, filling bool
	// view is the kind of the view that was arranged. Empty means that none was.
	view ViewKind
	// textOrder: StoreOptions.SetsInTextOrder.
	textOrder bool
	// rollupOf is the time series of which this one is to hold totals. Empty means that it is to hold measurements.
	rollupOf string
}

func (d *Database) open(ctx context.Context, name string, o timeseries.Options, maxCount int32, prepare func(*series) error) (*Store, error) {
	limit := timeseries.MaxNamespace
	if d.server.Sharded {
		limit = timeseries.MaxShardedNamespace
	}
	if err := timeseries.CheckSeriesName(d.o.Database, name, limit); err != nil {
		return nil, fmt.Errorf("the collection name %q %w; choose another MONGODB_COLLECTION", name, err)
	}
	o, err := o.Normalize()
	if err != nil {
		return nil, err
	}
	s := d.series(name)
	s.options = o
	if err := prepare(s); err != nil {
		return nil, fmt.Errorf("setting up %s: %w", s.namespace(), err)
	}
	rollups, err := readRollups(ctx, s.ports.Options)
	if err != nil {
		return nil, fmt.Errorf("setting up %s: %w", s.namespace(), err)
	}
	return NewStore(s.ports, StoreOptions{
		Namespace: s.namespace() + timeseries.BucketsSuffix, Collection: s.options, MaxCount: maxCount, Segments: s.filling, HasSegments: s.segments,
		WriteTimeout: d.o.WriteTimeout, Lease: d.o.Lease, StoredBytes: d.o.StoredBytes, Rollups: len(rollups.Levels) > 0,
		BSONSize: s.measuresDocuments(ctx), SetsInTextOrder: s.textOrder,
		Metrics: d.metrics, Logger: d.log,
	}), nil
}

func (d *Database) series(name string) *series {
	port := func(suffix string) driverCollection { return driverCollection{d.db.Collection(name + suffix), d} }
	s := &series{Database: d, name: name, ports: Ports{
		Buckets: port(timeseries.BucketsSuffix), Partitions: port(timeseries.PartitionsSuffix), Options: port(timeseries.OptionsSuffix),
		Clock: d.Clock,
	}}
	if d.server.Sharded {
		s.ports.FenceShards = s.ports.Buckets.(driverCollection).touchNothing
	}
	if d.server.Sessions {
		s.ports.Session = func() (Session, error) {
			session, err := d.client.StartSession(options.Session().SetCausalConsistency(true))
			if err != nil {
				return nil, err
			}
			return driverSession{session}, nil
		}
	}
	return s
}

func (s *series) namespace() string { return s.o.Database + "." + s.name }

func (s *series) buckets() *mongo.Collection {
	return s.db.Collection(s.name + timeseries.BucketsSuffix)
}

// indexes are the keys of those of the buckets that every time series has: for reopening and reading a series; for what is
// stored of a partition.
func (s *series) indexes() []bson.D {
	if s.rollupOf != "" { // its documents have no source
		return []bson.D{metaIndex(s.options)}
	}
	return []bson.D{metaIndex(s.options), sourceIndex()}
}

func metaIndex(o timeseries.Options) bson.D {
	return bson.D{{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.MinPath(o.TimeField), Value: 1}}
}

// viewIndex finds the last part of a series for a query on the view. MongoDB's stage for unpacking turns a lower bound of the
// time into one of control.max.<time>, and only in its later versions into one of control.min.<time> as well: an index that
// begins with the minimum lets the others read the whole history of the series. Readers and consumers go by metaIndex all the
// same: the maximum changes with every write to a bucket, and a scan in its order may meet a bucket twice, or never.
func viewIndex(o timeseries.Options) bson.D {
	return bson.D{
		{Key: timeseries.FieldMeta, Value: 1}, {Key: timeseries.MaxPath(o.TimeField), Value: -1}, {Key: timeseries.MinPath(o.TimeField), Value: -1},
	}
}

func sourceIndex() bson.D {
	return bson.D{
		{Key: timeseries.PathTopicID, Value: 1}, {Key: timeseries.PathPartition, Value: 1}, {Key: timeseries.PathLast, Value: 1},
	}
}

func expiryIndex(o timeseries.Options) bson.D {
	return bson.D{{Key: timeseries.MinPath(o.TimeField), Value: 1}}
}

// segmentIndex finds segments among the buckets, by owner and time. It is partial: no bucket is in it.
func segmentIndex(o timeseries.Options) bson.D {
	return bson.D{{Key: timeseries.PathOwner, Value: 1}, {Key: timeseries.MinPath(o.TimeField), Value: 1}}
}

// createViewIndex makes the index of the view where one is made of MongoDB's own stage: the documented stages use none. A single
// series needs none either, since the _id begins with the time.
func (s *series) createViewIndex(ctx context.Context) error {
	if s.view != ViewInternal || s.options.MetaField == "" {
		return nil
	}
	return s.createNeeded(ctx, viewIndex(s.options))
}

// createNeeded makes an index of all buckets, unless there is one under whatever name.
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

// boundsIndex finds the segments that may have a value at a path of the meta, in whatever series. It is partial as segmentIndex. The
// segments of several flushes mostly have the same bounds, so that a query passes over all of them at once.
func boundsIndex(path string) bson.D {
	return bson.D{{Key: timeseries.MaxPath(path), Value: 1}, {Key: timeseries.MinPath(path), Value: 1}}
}

// isOfSegments reports whether keys are those of an index of segments.
func isOfSegments(keys bson.D) bool {
	return keys[0].Key == timeseries.PathOwner || strings.HasPrefix(keys[0].Key, timeseries.MaxPath(""))
}

// segmentIndexes are the keys of the indexes of segments.
func (s *series) segmentIndexes() []bson.D {
	all := []bson.D{segmentIndex(s.options)}
	for _, path := range s.o.MetaPaths {
		all = append(all, boundsIndex(path))
	}
	return all
}

// createSegmentIndexes makes the indexes of segments.
func (s *series) createSegmentIndexes(ctx context.Context) error {
	for _, keys := range s.segmentIndexes() {
		err := s.createIndex(ctx, keys, options.Index().SetPartialFilterExpression(bson.D{isSegment()}))
		if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.Code == codeParallelArrays {
			s.log.Warn("an index is missing: queries read all segments, some of which have arrays in a path of META_INDEXES", "collection", s.namespace(), "err", err)
			continue
		}
		if err := s.withoutIndex("segments are looked for among all buckets", err); err != nil {
			return err
		}
	}
	return nil
}

// withoutIndex goes on without an index that the user may not create, and says what follows.
func (s *series) withoutIndex(consequence string, err error) error {
	if !LacksRight(err) {
		return err
	}
	s.log.Warn("an index is missing: "+consequence, "collection", s.namespace(), "err", err)
	return nil
}

// createIndexes makes the indexes. An expiry that keeps buckets longer than the options say is left alone: an operator may be
// about to change them.
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
		s.log.Warn("measurements are kept longer than the collection's options say: repeat the `waterwheel collection set-expiry` that was cut off",
			"collection", s.namespace(), "for", time.Duration(have-s.options.MaxSpanSeconds)*time.Second, "should_be", lifetime(s.options))
	}
	return widen(ctx, s, s.options)
}

func (s *series) createIndex(ctx context.Context, keys bson.D, o *options.IndexOptionsBuilder) error {
	_, err := s.buckets().Indexes().CreateOne(ctx, mongo.IndexModel{Keys: keys, Options: o})
	err = s.portError(err)
	var command *CommandError
	switch {
	case err == nil:
	case LacksRight(err):
		return s.unlessThere(ctx, keys, failure("creating indexes", err))
	case errors.As(err, &command) && command.Code == codeNotImplemented && slices.Equal(keys, expiryIndex(s.options)):
		s.log.Warn("this MongoDB does not expire documents: measurements are kept for ever, unless `waterwheel collection expire` deletes them",
			"collection", s.namespace())
	case errors.As(err, &command) && command.Code == codeNotImplemented && isOfSegments(keys):
		s.log.Info("this MongoDB has no partial indexes: segments are looked for among all buckets", "collection", s.namespace())
	case errors.As(err, &command) && (command.Code == codeIndexOptionsConflict || command.Code == codeIndexKeySpecsConflict):
		return fmt.Errorf("an index on %v exists with other options: drop it: %w", keys, err)
	default:
		return failure("creating indexes", err)
	}
	return nil
}

// unlessThere is the error of an index that the user may not create. Nil means that the index is there already.
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

// checkIndexes tells by ErrNotSetUp whether one is missing.
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

// ofAll reports whether an index has these keys, of all buckets.
func ofAll(spec bson.Raw, keys bson.D) bool {
	_, partial := spec.Lookup("partialFilterExpression").DocumentOK()
	return sameKeys(keyIn(spec), keys) && !partial
}

// keyIn is what the key of an index is.
func keyIn(spec bson.Raw) bson.Raw {
	key, _ := spec.Lookup("key").DocumentOK()
	return key
}

// servesAs reports whether an index has these keys in these directions, of all buckets, and deletes none.
func servesAs(spec bson.Raw, keys bson.D) bool {
	have, _ := spec.Lookup("key").DocumentOK()
	_, expires := spec.Lookup("expireAfterSeconds").AsInt64OK()
	_, collated := spec.Lookup("collation").DocumentOK()
	return ofAll(spec, keys) && equal(have, document(keys)) && !expires && !collated
}

// sameKeys compares the fields of index keys; all directions are the same here.
func sameKeys(have bson.Raw, want bson.D) bool {
	elements, err := have.Elements()
	return err == nil && slices.EqualFunc(elements, want, func(h bson.RawElement, w bson.E) bool { return h.Key() == w.Key })
}
