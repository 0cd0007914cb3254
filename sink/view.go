package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// codeNamespaceExists is MongoDB's answer to creating what is there.
const codeNamespaceExists = 48

// existing is what has the name of the time series; kind is empty for nothing.
type existing struct {
	kind     string // "collection", "view", "timeseries"
	viewOn   string
	pipeline bson.RawValue
}

func (s *series) existing(ctx context.Context) (existing, error) {
	cursor, err := s.db.ListCollections(ctx, bson.D{{Key: "name", Value: s.name}})
	if err != nil {
		return existing{}, failure("listing collections", s.portError(err))
	}
	var found []struct {
		Name    string `bson:"name"`
		Type    string `bson:"type"`
		Options struct {
			ViewOn   string        `bson:"viewOn"`
			Pipeline bson.RawValue `bson:"pipeline"`
		} `bson:"options"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return existing{}, failure("listing collections", s.portError(err))
	}
	for _, c := range found {
		if c.Name != s.name {
			continue
		}
		if c.Type == "" {
			c.Type = "collection"
		}
		return existing{kind: c.Type, viewOn: c.Options.ViewOn, pipeline: c.Options.Pipeline}, nil
	}
	return existing{}, nil
}

// refuseForeign refuses a name that something else has already: its readers would not find the measurements there.
func (s *series) refuseForeign(ctx context.Context) error {
	have, err := s.existing(ctx)
	if err != nil {
		return err
	}
	switch {
	case have.kind == "":
		return nil
	case have.kind != "view":
		return fmt.Errorf("a %s %q exists already: the name is needed for the view of the measurements; choose another MONGODB_COLLECTION",
			have.kind, s.name)
	case have.viewOn != s.name+timeseries.BucketsSuffix:
		return fmt.Errorf("a view %q of %q exists already: choose another MONGODB_COLLECTION", s.name, have.viewOn)
	}
	return nil
}

// unpackStage makes measurements of buckets, on the server.
func unpackStage(o timeseries.Options) bson.D {
	stage := bson.D{{Key: "timeField", Value: o.TimeField}}
	if o.MetaField != "" {
		stage = append(stage, bson.E{Key: "metaField", Value: o.MetaField})
	}
	// The stage wants an int32.
	stage = append(stage, bson.E{Key: "bucketMaxSpanSeconds", Value: o.MaxSpanSeconds})
	return bson.D{{Key: "$_internalUnpackBucket", Value: stage}}
}

// createView makes the read-only view of the measurements, where the server has what it needs.
func (s *series) createView(ctx context.Context) error {
	pipeline := bson.A{unpackStage(s.options)}
	have, err := s.existing(ctx)
	if err != nil {
		return err
	}
	if have.kind == "view" {
		return s.updateView(ctx, have, pipeline)
	}
	err = s.portError(s.tryUnpack(ctx, pipeline))
	if refused := (*CommandError)(nil); err != nil && (!errors.As(err, &refused) || passes(refused.Code)) {
		return failure("trying a view of the measurements", err)
	}
	if err != nil {
		s.log.Info("this MongoDB cannot unpack buckets in a view: there is no view of the measurements",
			"collection", s.namespace(), "err", err)
		return nil
	}
	err = s.portError(s.db.CreateView(ctx, s.name, s.name+timeseries.BucketsSuffix, pipeline))
	if c := (*CommandError)(nil); errors.As(err, &c) && !passes(c.Code) {
		if c.Code != codeNamespaceExists {
			s.log.Info("this MongoDB makes no view of the measurements", "collection", s.namespace(), "err", err)
		}
		return nil // or another consumer was quicker
	}
	if err != nil {
		return failure("creating the view", err)
	}
	return nil
}

// tryUnpack tells why the server cannot unpack buckets; nil: it can.
func (s *series) tryUnpack(ctx context.Context, pipeline bson.A) error {
	try := append(pipeline[:len(pipeline):len(pipeline)], bson.D{{Key: "$limit", Value: 1}})
	cursor, err := s.db.Collection(s.name+timeseries.BucketsSuffix).Aggregate(ctx, try)
	if err != nil {
		return err
	}
	return cursor.Close(ctx)
}

// updateView gives an older view the present span.
func (s *series) updateView(ctx context.Context, have existing, pipeline bson.A) error {
	_, want, err := bson.MarshalValue(pipeline)
	if err != nil {
		return fmt.Errorf("encoding the view: %w", err)
	}
	if bytes.Equal(have.pipeline.Value, want) {
		return nil
	}
	command := bson.D{{Key: "collMod", Value: s.name}, {Key: "viewOn", Value: s.name + timeseries.BucketsSuffix}, {Key: "pipeline", Value: pipeline}}
	if err := s.db.RunCommand(ctx, command).Err(); err != nil {
		return failure("changing the view", s.portError(err))
	}
	return nil
}
