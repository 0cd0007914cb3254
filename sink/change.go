package sink

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
)

// ErrChangedMeanwhile: somebody else changed the options of the collection at the same time. Nothing was written.
var ErrChangedMeanwhile = errors.New("somebody else changed the collection's options at the same time: look at them and try again")

// Definition reads how a time series is defined now, and the version of that. ErrNotSetUp: there is no such time series.
func (d *Database) Definition(ctx context.Context, name string) (timeseries.Options, int32, error) {
	have, err := readDefinition(ctx, d.series(name).ports.Options)
	return have.Options, have.Version, err
}

// SetGranularity changes the bucketing of a time series to that of a granularity, which must not make span or rounding
// smaller (*timeseries.Error otherwise). It returns the definitions before and after. Stored buckets stay as they are.
//
// What reads buckets comes first: with the larger span, the view and the expiry are right for buckets of both, whatever
// happens in between. Repeating the call finishes what was cut off.
func (d *Database) SetGranularity(ctx context.Context, name string, g timeseries.Granularity) (before, after timeseries.Options, err error) {
	s := d.series(name)
	have, err := readDefinition(ctx, s.ports.Options)
	if err != nil {
		return before, after, err
	}
	before = have.Options
	after, err = before.Change(timeseries.Options{Granularity: g, ExpireAfterSeconds: before.ExpireAfterSeconds})
	if err != nil {
		return before, after, err
	}
	s.options = after
	if err := s.adjustExpiry(ctx); err != nil {
		return before, after, err
	}
	if err := s.adjustUserExpiries(ctx); err != nil {
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
	written, err := changed(s.ports.Options.Update(ctx, []Update{{
		Filter: document(bson.D{{Key: "_id", Value: timeseries.DefinitionID}, {Key: "version", Value: version}}),
		Update: document(bson.D{
			{Key: "$set", Value: bson.D{
				{Key: "version", Value: version + 1},
				{Key: "granularity", Value: string(s.options.Granularity)},
				{Key: "bucketMaxSpanSeconds", Value: s.options.MaxSpanSeconds},
			}},
			{Key: "$unset", Value: bson.D{{Key: "bucketRoundingSeconds", Value: ""}}},
		}),
	}}))
	if err == nil && !written {
		return ErrChangedMeanwhile
	}
	return failure("writing the collection's options", err)
}

// adjustView gives a view by MongoDB's own stage the span of the series' options; the others do not name it.
func (s *series) adjustView(ctx context.Context) error {
	have, err := s.existing(ctx, s.name)
	if err != nil || !s.isView(have) || s.kindOf(have) != ViewInternal {
		return err
	}
	return s.updateView(ctx, have, ViewInternal)
}

// adjustExpiry lets buckets live as long as the series' options say, where the server expires them at all.
func (s *series) adjustExpiry(ctx context.Context) error {
	after := s.options.TTLSeconds()
	if after == 0 {
		return nil
	}
	name, seconds, found, err := s.expiryNow(ctx)
	if err != nil || !found || seconds == int64(after) {
		return err
	}
	index := bson.D{{Key: "name", Value: name}, {Key: "expireAfterSeconds", Value: after}}
	command := bson.D{{Key: "collMod", Value: s.buckets().Name()}, {Key: "index", Value: index}}
	err = s.portError(s.db.RunCommand(ctx, command).Err())
	if c := (*CommandError)(nil); errors.As(err, &c) && (c.Code == codeCommandNotFound || c.Code == codeNotImplemented) {
		if err = s.portError(s.buckets().Indexes().DropOne(ctx, name)); err == nil {
			err = s.createIndexes(ctx)
		}
	}
	return failure("changing the expiry", err)
}
