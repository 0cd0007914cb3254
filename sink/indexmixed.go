package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// refuseMixed refuses an index on a measurement field while a bucket holds values of several kinds in it, as MongoDB's own time
// series do. An index has a bucket's smallest and largest value, and a query compares with values of one kind: a bucket whose
// largest value is a text is not found by a number, though it may hold numbers that are asked for. Consumers put values of
// another kind into another bucket, so that only buckets written by others are refused. Segments, in which series of several kinds lie beside
// one another, are left out: nobody looks for them by such an index.
func (s *series) refuseMixed(ctx context.Context, keys bson.Raw) error {
	elements, err := keys.Elements()
	if err != nil {
		return fmt.Errorf("the keys of the index: %w", err)
	}
	for _, e := range elements {
		if field := e.Key(); e.Value().IsNumber() && field != s.options.TimeField && !s.options.OfMeta(field) {
			if err := s.refuseMixedField(ctx, field); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *series) refuseMixedField(ctx context.Context, field string) error {
	low, high := timeseries.MinPath(field), timeseries.MaxPath(field)
	kindOf := func(path string) bson.D { return bson.D{{Key: "$type", Value: "$" + path}} }
	isBucket := bson.E{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: false}}}
	query := mongodb.Query{
		Filter:     mongodb.Document(bson.D{isBucket, {Key: "$expr", Value: bson.D{{Key: "$ne", Value: bson.A{kindOf(low), kindOf(high)}}}}}),
		Projection: mongodb.Document(bson.D{{Key: low, Value: 1}, {Key: high, Value: 1}}),
	}
	search := func(bucket bson.Raw) error { return mixedIn(bucket, field) }
	err := s.ports.Buckets.Find(ctx, query, search)
	if c := (*mongodb.CommandError)(nil); errors.As(err, &c) && !mongodb.Passes(c.Code) {
		query.Filter = mongodb.Document(bson.D{isBucket}) // a server that cannot compare the kinds sends all values
		err = s.ports.Buckets.Find(ctx, query, search)
	}
	if mixed := (*MixedKindsError)(nil); errors.As(err, &mixed) {
		return err
	}
	return mongodb.Failure("looking at the kinds of values in buckets", err)
}

// MixedKindsError: a bucket holds values of several kinds in a field that an index is to be on.
type MixedKindsError struct {
	Field string
	ID    bson.RawValue // of the bucket
}

// Error names the bucket and the way out.
func (e *MixedKindsError) Error() string {
	return fmt.Sprintf("%s cannot be indexed: the bucket %v holds values of several kinds in it, so that a query by the index would "+
		"miss some. No consumer writes such a bucket: correct it, or take it out of the collection", e.Field, e.ID)
}

// mixedIn tells by an error whether the smallest and the largest value of a field in a bucket are of different kinds.
func mixedIn(bucket bson.Raw, field string) error {
	path := func(of string) []string {
		return append([]string{timeseries.FieldControl, of}, strings.Split(field, ".")...)
	}
	least, most := bucket.Lookup(path(timeseries.FieldMin)...), bucket.Lookup(path(timeseries.FieldMax)...)
	if timeseries.CanonicalType(least.Type) == timeseries.CanonicalType(most.Type) {
		return nil
	}
	return &MixedKindsError{field, bucket.Lookup(timeseries.FieldID)}
}
