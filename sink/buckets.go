package sink

import (
	"context"

	"waterwheel/timeseries"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Buckets are a time series' buckets for work beside the consumer that owns them, such as verifying and mending: read as
// a majority has them, and changed one at a time, always under a condition. It is safe for concurrent use.
type Buckets struct{ c driverCollection }

// Buckets returns the buckets of a time series, which need not exist.
func (d *Database) Buckets(series string) Buckets {
	return Buckets{driverCollection{d.db.Collection(series + timeseries.BucketsSuffix), d}}
}

// Find calls each for every document found, in no particular order; the document is valid during that call. An error of
// each ends the query and is returned as it is.
func (b Buckets) Find(ctx context.Context, q Query, each func(document bson.Raw) error) error {
	var stopped error
	err := b.c.Find(ctx, q, func(d bson.Raw) error {
		stopped = each(d)
		return stopped
	})
	if err == nil || stopped != nil {
		return err
	}
	return failure("reading buckets", err)
}

// Update changes the bucket that the filter finds; false: none was found. After an error it is not known what happened.
func (b Buckets) Update(ctx context.Context, filter, update bson.Raw) (bool, error) {
	done, err := changed(b.c.Update(ctx, []Update{{Filter: filter, Update: update}}))
	return done, failure("changing a bucket", err)
}

// Delete deletes the bucket that the filter finds; false: none was found. After an error it is not known what happened.
func (b Buckets) Delete(ctx context.Context, filter bson.Raw) (bool, error) {
	result, err := b.c.c.DeleteOne(ctx, filter)
	if err != nil {
		return false, failure("deleting a bucket", b.c.d.portError(err))
	}
	return result.DeletedCount > 0, nil
}
