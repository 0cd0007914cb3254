package collection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Setup makes the missing collections of the time series: the options document, the buckets, their indexes and the view. The
// buckets are compressed by zstd if the server lets a collection choose. Several consumers may do it at once. If the time series
// exists with other options, the error names each differing setting.
func (t TimeSeries) Setup(ctx context.Context, o timeseries.Options, as Settings) (Ready, error) {
	return t.prepare(ctx, o, as, func(s *series) error {
		if err := s.createMissing(ctx); err != nil {
			return err
		}
		s.decideSegments()
		s.textOrder = s.setsInTextOrder(ctx)
		return nil
	})
}

// createMissing makes the missing collections, and warns of settings that the existing ones ignore.
func (s *series) createMissing(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.refuseForeign, s.define, s.createBuckets, s.createReading} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.warnIgnored()
	return nil
}

// createReading makes the indexes and the view. It makes them again when the options were changed meanwhile. A view of a smaller
// span does not show everything in buckets of a larger one, and nothing may expire that is to be kept now. createReading also
// begins segments. It notes them for good only when all that they need exists. Then it checks once more, because another consumer
// may have made the view without segments.
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
		if segments && !indexed { // before the view, which finds segments by the index
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
		if begins && mongodb.LacksRight(err) && s.settings.Segments == SegmentsAuto {
			if err := s.postponeSegments(ctx, err); err != nil {
				return err
			}
			begins, s.segments = false, false
			continue
		}
		if err != nil {
			return err
		}
		if err := s.withoutIndex("a query of one series through the view reads all buckets of the series", s.createViewIndex(ctx)); err != nil {
			return err
		}
		if err := s.define(ctx); err != nil || !begins && s.options == made && s.segments == segments {
			return err
		}
		begins = false
	}
}

// BlockCompressor is WiredTiger's compressor for buckets, if a collection can choose. MongoDB makes its own time-series
// collections with it, whatever the server's default is (SERVER-57426). Buckets repeat their field names and indexes. zstd finds
// these repetitions, and snappy, the default of other collections, does not.
const BlockCompressor = "zstd"

// createBuckets makes the collection of the buckets if it does not exist. An existing one stays as it is. A server may refuse the
// compressor, refuse creating collections at all, or ignore the option. The buckets are then compressed by the server's default,
// and the first index makes the collection.
func (s *series) createBuckets(ctx context.Context) error {
	have, err := s.existing(ctx, s.buckets().Name())
	if err != nil || have.kind != "" {
		return err
	}
	engine := bson.D{{Key: "wiredTiger", Value: bson.D{{Key: "configString", Value: "block_compressor=" + BlockCompressor}}}}
	err = s.driver().CreateCollection(ctx, s.buckets().Name(), options.CreateCollection().SetStorageEngine(engine))
	why := errors.New("the server ignores the option storageEngine")
	if err != nil {
		refused, unknown := s.refusal("creating the collection of the buckets", err)
		switch {
		case mongodb.LacksRight(unknown):
			s.log().Warn("a right is missing: this user may not create the collection of the buckets, so MongoDB creates it with the first index, compressed with MongoDB's default compressor",
				"err", unknown)
			return nil
		case unknown != nil:
			return unknown
		}
		if mongodb.HasCode(refused, mongodb.CodeNamespaceExists) {
			return nil // another consumer was quicker
		}
		why = refused
	} else if have, err = s.existing(ctx, s.buckets().Name()); err != nil || have.engine.Type != 0 {
		return err
	}
	s.log().Info("this MongoDB does not let a collection choose "+BlockCompressor+": buckets are compressed with MongoDB's default compressor",
		"why", why)
	return nil
}

// Check is Setup without making anything. ErrNotSetUp means that something is missing, and that nothing foreign has the name.
func (t TimeSeries) Check(ctx context.Context, o timeseries.Options) (Ready, error) {
	return t.prepare(ctx, o, Settings{}, func(s *series) error {
		have, err := ReadDefinition(ctx, s.ports.Options)
		if errors.Is(err, ErrNotSetUp) {
			if foreign := s.refuseForeign(ctx); foreign != nil && !mongodb.LacksRight(foreign) {
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

func (t TimeSeries) prepare(ctx context.Context, o timeseries.Options, as Settings, prepare func(*series) error) (Ready, error) {
	limit := timeseries.MaxNamespace
	if t.db.Server().Sharded {
		limit = timeseries.MaxShardedNamespace
	}
	if err := timeseries.CheckSeriesName(t.db.Name(), t.name, limit); err != nil {
		return Ready{}, fmt.Errorf("the collection name %q %w; choose another MONGODB_COLLECTION", t.name, err)
	}
	o, err := o.Normalize()
	if err != nil {
		return Ready{}, err
	}
	s := t.series()
	s.options, s.settings = o, as.withDefaults()
	if err := prepare(s); err != nil {
		return Ready{}, fmt.Errorf("setting up %s: %w", s.namespace(), err)
	}
	rollups, err := ReadRollups(ctx, s.ports.Options)
	if err != nil {
		return Ready{}, fmt.Errorf("setting up %s: %w", s.namespace(), err)
	}
	return Ready{
		Ports: s.ports, Namespace: s.bucketsNamespace(), Options: s.options, Segments: s.filling, HasSegments: s.segments,
		Rollups: len(rollups.Levels) > 0, BSONSize: s.measuresDocuments(ctx), SetsInTextOrder: s.textOrder,
		Ignored: s.ignored,
	}, nil
}

// setsInTextOrder reports whether the server makes new fields of one $set in the text order of their names. It tries this on a
// scratch document in the options collection, and deletes the document again. It tries the right to delete first, so that no
// document stays. If it cannot try, it assumes that the server orders numeric names by number, as MongoDB does since 5.0.
func (s *series) setsInTextOrder(ctx context.Context) bool {
	scratch := s.driver().Collection(s.name + timeseries.OptionsSuffix)
	id := bson.D{{Key: "_id", Value: "probe-" + rand.Text()}}
	if _, err := scratch.DeleteOne(ctx, id); err != nil {
		return false
	}
	if _, err := scratch.InsertOne(ctx, append(id, bson.E{Key: "column", Value: bson.D{}})); err != nil {
		return false
	}
	defer func() { _, _ = scratch.DeleteOne(context.WithoutCancel(ctx), id) }() // a document that stays does no harm
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "column.9", Value: 1}, {Key: "column.10", Value: 1}}}}
	if _, err := scratch.UpdateOne(ctx, id, set); err != nil {
		return false
	}
	var after struct{ Column bson.D }
	if err := scratch.FindOne(ctx, id).Decode(&after); err != nil || len(after.Column) == 0 || after.Column[0].Key == "9" {
		return false
	}
	s.log().Info("this server sorts the fields of an update as text (10 before 9), unlike MongoDB: a bucket is closed when its number of measurements passes 10, 100 or 1,000")
	return true
}

// measuresDocuments reports whether a query can ask for the size of a document. It tries this on the options document, whose size
// is known.
func (s *series) measuresDocuments(ctx context.Context) bool {
	query := mongodb.Query{Filter: mongodb.WithID(timeseries.DefinitionID)}
	whole, err := mongodb.First(ctx, s.ports.Options, query)
	if err != nil {
		return false
	}
	const size = "size"
	query.Projection = mongodb.Document(bson.D{{Key: size, Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}})
	answer, err := mongodb.First(ctx, s.ports.Options, query)
	n, ok := answer.Lookup(size).AsInt64OK()
	return err == nil && ok && n == int64(len(whole))
}

// Segments says whether measurements of slow series are written into segments first.
type Segments string

// The choices. Existing segments are shown and compacted with each of them.
const (
	SegmentsOff  Segments = "off"
	SegmentsAuto Segments = "auto" // for a time series without buckets yet, if a view can show segments
	SegmentsOn   Segments = "on"   // always
)

// beginsSegments reports whether this set-up begins segments in the time series.
func (s *series) beginsSegments(ctx context.Context) (bool, error) {
	if s.segments || s.settings.Segments == SegmentsOff || s.rollupOf != "" {
		return false, nil
	}
	if s.settings.Segments == SegmentsOn {
		return true, nil
	}
	why, err := s.declinesSegments(ctx)
	if err != nil {
		return false, err
	}
	if why != nil {
		s.log().Info("SEGMENTS=auto: measurements are written directly into buckets", "why", why)
	}
	return why == nil, nil
}

// beginSegments begins segments in the time series. It makes the view that shows them, and then notes them in the definition, for
// good. If a right is missing for the view, the definition stays as it was. The indexes of segments are made before
// beginSegments, the first segment after it.
func (s *series) beginSegments(ctx context.Context) error {
	if err := s.arrangeView(ctx); mongodb.LacksRight(err) {
		return fmt.Errorf("the view that shows the segments cannot be created or changed: %w; %s, or set SEGMENTS=off", err, viewRights)
	} else if err != nil {
		return err
	}
	c := OptionsChange{Options: s.ports.Options, WriteTimeout: s.db.WriteTimeout(), Sleep: sleep}
	noted := c.noteSegments(ctx)
	if noted != nil && !errors.Is(noted, ErrChangedMeanwhile) {
		return noted
	}
	if err := s.define(ctx); err != nil || s.segments {
		return err // other starting consumers note it as well
	}
	return noted
}

var (
	errNoView = errors.New("MONGODB_VIEW=none")
	errBegun  = errors.New("the collection has buckets but no segments yet; set SEGMENTS=on to use segments")
)

// declinesSegments says why a time series has no segments unless SEGMENTS=on asks for them. Nil means that it may have segments.
// It declines them for an existing time series, because segments are for good and some consumers and readers may not know them.
// unknown means that the answer is not known now.
func (s *series) declinesSegments(ctx context.Context) (why, unknown error) {
	if why, unknown := s.hasBegun(ctx); why != nil || unknown != nil {
		return why, unknown
	}
	why, unknown = s.hidesSegments(ctx)
	if why != nil {
		why = fmt.Errorf("no view can show segments: %w", why)
	}
	return why, unknown
}

// postponedID is the _id of a note in the options collection. It says that segments were to begin before the first bucket, but a
// right was missing. They may begin later, because a missing right decides nothing for good.
const postponedID = "segments"

// postponeSegments continues without segments until a later start has the rights for them.
func (s *series) postponeSegments(ctx context.Context, refused error) error {
	if _, err := mongodb.Changed(s.ports.Options.Insert(ctx, []bson.Raw{mongodb.WithID(postponedID)})); err != nil {
		return mongodb.Failure("recording that consumers may use segments later", err)
	}
	s.log().Warn("SEGMENTS=auto: measurements are written directly into buckets until a consumer starts with the rights that segments need",
		"err", refused)
	return nil
}

// hasBegun returns an error in why if there are buckets already and segments were not just postponed.
func (s *series) hasBegun(ctx context.Context) (why, unknown error) {
	stored, unknown := has(ctx, s.ports.Buckets, bson.D{})
	if unknown != nil || !stored {
		return nil, unknown
	}
	postponed, unknown := has(ctx, s.ports.Options, bson.D{{Key: "_id", Value: postponedID}})
	if unknown != nil || postponed {
		return nil, unknown
	}
	return errBegun, nil
}

// has reports whether a collection has a document that a filter finds.
func has(ctx context.Context, c mongodb.Collection, filter bson.D) (bool, error) {
	found, err := mongodb.First(ctx, c, mongodb.Query{Filter: mongodb.Document(filter), Projection: mongodb.Document(bson.D{{Key: "_id", Value: 1}})})
	return found != nil, mongodb.Failure("looking for a bucket", err)
}

// hidesSegments says why no possible view shows segments. Nil means that one does. The second error means that the answer is not
// known now.
func (s *series) hidesSegments(ctx context.Context) (why, unknown error) {
	if s.settings.View == ViewNone {
		return errNoView, nil
	}
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return nil, err
	}
	with := *s
	with.segments = true
	_, why, err = with.chooseView(ctx, have)
	return why, err
}

// decideSegments decides whether to write new segments, after the view was arranged. It writes none if the view shows them
// wrongly.
func (s *series) decideSegments() {
	s.filling = s.segments && s.settings.Segments != SegmentsOff && !s.blind && (s.shown || s.settings.Segments == SegmentsOn)
	switch {
	case s.blind && s.settings.Segments != SegmentsOff:
		s.log().Warn("the view does not support segments: measurements are written directly into buckets",
			"way_out", viewRights)
	case s.filling && !s.shown:
		s.log().Warn("no view shows segments: only `waterwheel query` and the package reader find measurements that are not in buckets yet")
	case s.segments && !s.filling && s.settings.Segments == SegmentsAuto:
		s.log().Info("SEGMENTS=auto: measurements are written directly into buckets, since no view shows segments")
	}
}
