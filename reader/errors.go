package reader

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// ErrNotSetUp means that there is no time series of this name in the database.
var ErrNotSetUp = errors.New("no such time series: check the names of the collection and the database; " +
	"`waterwheel init` creates the time series, and so does a consumer when it starts")

// QueryError means that a Query is invalid. Nothing was read.
type QueryError struct{ Err error }

// Error says what is wrong with the query.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Err }

// BucketError tells of one stored bucket or segment that cannot be read. A caller that continues the iteration gets the next one.
type BucketError struct {
	Namespace string        // of the collection of buckets
	ID        bson.RawValue // _id. Type 0 means that it has none, or that it cannot be read.
	Segment   bool          // it is a segment
	Err       error         // a *timeseries.Error for anything that MongoDB could not unpack either
}

func newBucketError(namespace string, bucket bson.Raw, err error) *BucketError {
	_, missing := bucket.LookupErr(timeseries.FieldControl, timeseries.FieldSegment)
	return &BucketError{Namespace: namespace, ID: cloned(idOf(bucket)), Segment: missing == nil, Err: err}
}

// Error names the bucket, what is wrong with it, and the way out.
func (e *BucketError) Error() string {
	id := "without a readable _id"
	if e.ID.Type != 0 {
		id = fmt.Sprintf("with the _id %v", e.ID)
	}
	what := "bucket"
	if e.Segment {
		what = "segment"
	}
	return fmt.Sprintf("the %s %s in %s cannot be read: %v; waterwheel does not write documents in this form: read the document with find(), "+
		"then correct it, or move it to another collection", what, id, e.Namespace, e.Err)
}

// Unwrap returns the cause.
func (e *BucketError) Unwrap() error { return e.Err }
