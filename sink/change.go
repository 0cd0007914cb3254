package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/timeseries"
)

// ErrChangedMeanwhile: somebody else changed the options of the collection at the same time. Nothing was written.
var ErrChangedMeanwhile = errors.New("the collection's options were changed by somebody else meanwhile: look at them and try again")

// codeCommandNotFound is the answer of a server that does not know the command.
const codeCommandNotFound = 59

// Definition reads how a time series is defined now, and the version of that. ErrNotSetUp: there is no such time series.
func (d *Database) Definition(ctx context.Context, name string) (timeseries.Options, int32, error) {
	have, err := readDefinition(ctx, d.ports(name).Options)
	if err != nil {
		return timeseries.Options{}, 0, err
	}
	return have.options(), have.Version, nil
}

// SetGranularity changes the bucketing of a time series to that of a granularity, which must not make span or rounding
// smaller (*timeseries.Error otherwise). It returns the definitions before and after. Stored buckets stay as they are.
//
// What reads buckets comes first: with the larger span, the view and the expiry are right for buckets of both, whatever
// happens in between. Repeating the call finishes what was cut off.
func (d *Database) SetGranularity(ctx context.Context, name string, g timeseries.Granularity) (before, after timeseries.Options, err error) {
	s := &series{Database: d, name: name, ports: d.ports(name)}
	have, err := readDefinition(ctx, s.ports.Options)
	if err != nil {
		return before, after, err
	}
	if before, err = have.options().Normalize(); err != nil {
		return before, after, fmt.Errorf("reading the options of %s: %w", s.namespace(), err)
	}
	after, err = before.Change(timeseries.Options{Granularity: g, ExpireAfterSeconds: before.ExpireAfterSeconds})
	if err != nil {
		return before, after, err
	}
	s.options = after
	if err := s.adjustExpiry(ctx); err != nil {
		return before, after, err
	}
	if err := s.adjustView(ctx); err != nil {
		return before, after, err
	}
	if after == before {
		return before, after, nil
	}
	if err := s.writeBucketing(ctx, have.Version); err != nil {
		return before, after, err
	}
	return before, after, s.adjustView(ctx) // a consumer that began before may have made it as it was
}

// writeBucketing writes the bucketing of the series' options, if the document is still of this version.
func (s *series) writeBucketing(ctx context.Context, version int32) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.WriteTimeout)
	defer cancel()
	reply, err := s.ports.Options.Update(ctx, []Update{{
		Filter: document(bson.D{{Key: "_id", Value: optionsID}, {Key: "version", Value: version}}),
		Update: document(bson.D{
			{Key: "$set", Value: bson.D{
				{Key: "version", Value: version + 1},
				{Key: "granularity", Value: string(s.options.Granularity)},
				{Key: "bucketMaxSpanSeconds", Value: s.options.MaxSpanSeconds},
			}},
			{Key: "$unset", Value: bson.D{{Key: "bucketRoundingSeconds", Value: ""}}},
		}),
	}})
	written, err := changed("writing the collection's options", reply, err)
	if err == nil && !written {
		return ErrChangedMeanwhile
	}
	return err
}

// adjustView gives the view the span of the series' options, where there is a view.
func (s *series) adjustView(ctx context.Context) error {
	have, err := s.existing(ctx)
	if err != nil || have.kind != "view" || have.viewOn != s.name+timeseries.BucketsSuffix {
		return err
	}
	return s.updateView(ctx, have, bson.A{unpackStage(s.options)})
}

// adjustExpiry lets buckets live as long as the series' options say, where the server expires them at all.
func (s *series) adjustExpiry(ctx context.Context) error {
	const doing = "changing the expiry"
	if s.options.TTLSeconds() == 0 {
		return nil
	}
	specs, err := s.db.Collection(s.name + timeseries.BucketsSuffix).Indexes().ListSpecifications(ctx)
	if err != nil {
		return failure("listing indexes", portError(err))
	}
	keys := expiryIndex(s.options)
	i := slices.IndexFunc(specs, func(spec mongo.IndexSpecification) bool {
		return sameKeys(spec.KeysDocument, keys) && spec.ExpireAfterSeconds != nil && *spec.ExpireAfterSeconds != s.options.TTLSeconds()
	})
	if i < 0 {
		return nil
	}
	index := bson.D{{Key: "keyPattern", Value: keys}, {Key: "expireAfterSeconds", Value: s.options.TTLSeconds()}}
	command := bson.D{{Key: "collMod", Value: s.name + timeseries.BucketsSuffix}, {Key: "index", Value: index}}
	err = portError(s.db.RunCommand(ctx, command).Err())
	if c := (*CommandError)(nil); errors.As(err, &c) && (c.Code == codeCommandNotFound || c.Code == codeNotImplemented) {
		if err = portError(s.db.Collection(s.name+timeseries.BucketsSuffix).Indexes().DropOne(ctx, specs[i].Name)); err == nil {
			err = s.createIndexes(ctx)
		}
	}
	if err != nil {
		return failure(doing, err)
	}
	return nil
}
