package sink

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// existing is what has a name; kind is empty for nothing.
type existing struct {
	kind     string // "collection", "view", "timeseries"
	viewOn   string
	pipeline bson.RawValue
}

func (d *Database) existing(ctx context.Context, name string) (existing, error) {
	var found []struct {
		Name    string `bson:"name"`
		Type    string `bson:"type"`
		Options struct {
			ViewOn   string        `bson:"viewOn"`
			Pipeline bson.RawValue `bson:"pipeline"`
		} `bson:"options"`
	}
	cursor, err := d.db.ListCollections(ctx, bson.D{{Key: "name", Value: name}})
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	for _, c := range found {
		if c.Name == name {
			return existing{kind: cmp.Or(c.Type, "collection"), viewOn: c.Options.ViewOn, pipeline: c.Options.Pipeline}, nil
		}
	}
	return existing{}, failure("listing collections", d.portError(err))
}

// HasView tells whether the time series has its view of measurements.
func (d *Database) HasView(ctx context.Context, name string) (bool, error) {
	have, err := d.existing(ctx, name)
	return have.kind == "view", err
}

// refuseForeign refuses a name that something else has already: its readers would not find the measurements there.
func (s *series) refuseForeign(ctx context.Context) error {
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return err
	}
	switch {
	case have.kind == "":
		return nil
	case have.kind != "view":
		return fmt.Errorf("a %s %q exists already: the name is needed for the view of the measurements; choose another MONGODB_COLLECTION",
			have.kind, s.name)
	case have.viewOn != s.buckets().Name():
		return fmt.Errorf("a view %q of %q exists already: choose another MONGODB_COLLECTION", s.name, have.viewOn)
	}
	return nil
}

// unpacking is the pipeline that makes measurements of buckets, on the server.
func (s *series) unpacking() bson.A {
	stage := bson.D{{Key: "timeField", Value: s.options.TimeField}}
	if s.options.MetaField != "" {
		stage = append(stage, bson.E{Key: "metaField", Value: s.options.MetaField})
	}
	// The stage wants an int32.
	stage = append(stage, bson.E{Key: "bucketMaxSpanSeconds", Value: s.options.MaxSpanSeconds})
	return bson.A{bson.D{{Key: "$_internalUnpackBucket", Value: stage}}}
}

// createView makes the read-only view of the measurements, where the server has what it needs.
func (s *series) createView(ctx context.Context) error {
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return err
	}
	if have.kind == "view" {
		return s.updateView(ctx, have)
	}
	if err = s.tryUnpack(ctx); err == nil {
		err = s.db.CreateView(ctx, s.name, s.buckets().Name(), s.unpacking())
	}
	err = s.portError(err)
	refused := (*CommandError)(nil)
	switch {
	case !errors.As(err, &refused) || passes(refused.Code):
		return failure("creating the view", err)
	case refused.Code != codeNamespaceExists: // else another consumer was quicker
		s.log.Info("this MongoDB cannot unpack buckets in a view: there is no view of the measurements",
			"collection", s.namespace(), "err", err)
	}
	return nil
}

// tryUnpack tells why the server cannot unpack buckets; nil: it can.
func (s *series) tryUnpack(ctx context.Context) error {
	cursor, err := s.buckets().Aggregate(ctx, append(s.unpacking(), bson.D{{Key: "$limit", Value: 1}}))
	if err != nil {
		return err
	}
	return cursor.Close(ctx)
}

// updateView gives an older view the present span.
func (s *series) updateView(ctx context.Context, have existing) error {
	pipeline := s.unpacking()
	_, want, err := bson.MarshalValue(pipeline)
	if err != nil {
		return fmt.Errorf("encoding the view: %w", err)
	}
	if bytes.Equal(have.pipeline.Value, want) {
		return nil
	}
	command := bson.D{{Key: "collMod", Value: s.name}, {Key: "viewOn", Value: s.buckets().Name()}, {Key: "pipeline", Value: pipeline}}
	return failure("changing the view", s.portError(s.db.RunCommand(ctx, command).Err()))
}
