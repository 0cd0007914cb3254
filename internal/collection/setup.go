package collection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

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
		Ports: s.ports, Namespace: s.namespace() + timeseries.BucketsSuffix, Options: s.options, Segments: s.filling, HasSegments: s.segments,
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
	s.db.Log().Info("this server orders the fields of an update as text (10 before 9): a bucket is closed when its array indexes get another digit",
		"collection", s.namespace())
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
