package collection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// ErrNeverExpires means that the collection keeps measurements for ever.
var ErrNeverExpires = errors.New("the collection keeps measurements for ever")

// ErrKeptLonger ends the deletion of expired measurements because the collection keeps them longer now.
var ErrKeptLonger = errors.New("another process made the collection's expiry longer while this command ran: run the command again")

// Expired selects the buckets that hold only measurements from before a moment, by the rule of the expiry index: a bucket is due
// when everything that it may hold is older. A zero moment means MongoDB's present time minus the collection's expiry. The
// deletion then ends with ErrKeptLonger when the collection's expiry becomes longer meanwhile. Expired returns the moment. It
// returns ErrNotSetUp if there is no time series, and ErrNeverExpires if a zero moment meets no expiry.
//
// The same rule applies to a segment as a whole, because it too holds the times of one span from its minimum. A compaction that
// finds a segment gone continues with the others. The buckets that it made of that segment are older than the moment as well.
func (t TimeSeries) Expired(ctx context.Context, before time.Time) (*Selection, time.Time, error) {
	o, _, err := t.Definition(ctx)
	if err != nil {
		return nil, before, err
	}
	now, err := t.db.Clock(ctx)
	if err != nil {
		return nil, before, err
	}
	byExpiry := before.IsZero()
	switch {
	case before.After(now):
		return nil, before, fmt.Errorf("the time %s is in the future: MongoDB's clock shows %s", before.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case byExpiry && o.ExpireAfterSeconds == 0:
		return nil, before, ErrNeverExpires
	case byExpiry:
		before = now.Add(-lifetime(o))
	}
	s := t.documents(SelectionOptions{Query: mongodb.Document(olderThan(o, before)), TimeField: o.TimeField, Closed: true})
	if byExpiry {
		s.unnoted = true // `verify` recognises expired measurements by their time
		s.due = func(ctx context.Context) error {
			now, _, err := t.Definition(ctx)
			if err == nil && (now.ExpireAfterSeconds == 0 || now.ExpireAfterSeconds > o.ExpireAfterSeconds) {
				return ErrKeptLonger
			}
			return err
		}
	}
	return s, before, nil
}

// olderThan returns the query for the buckets that hold only measurements from before a moment.
func olderThan(o timeseries.Options, before time.Time) bson.D {
	return bson.D{
		{Key: timeseries.MinPath(o.TimeField), Value: bson.D{{Key: "$lte", Value: bson.DateTime(before.UnixMilli() - o.Span())}}},
		{Key: timeseries.MaxPath(o.TimeField), Value: bson.D{{Key: "$lt", Value: bson.DateTime(before.UnixMilli())}}},
	}
}

// ExpiredBy selects the buckets that a TTL index on measurements would delete at once. A *timeseries.Error says what is wrong
// with the index.
func (t TimeSeries) ExpiredBy(ctx context.Context, user timeseries.Index) (*Selection, error) {
	o, _, err := t.Definition(ctx)
	if err != nil {
		return nil, err
	}
	index, err := o.BucketIndex(user)
	if err != nil {
		return nil, err
	}
	now, err := t.db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	age, _ := user.Options.Lookup("expireAfterSeconds").AsInt64OK()
	query := bson.D{{Key: "$and", Value: bson.A{
		index.Options.Lookup("partialFilterExpression"), olderThan(o, now.Add(-time.Duration(age)*time.Second)),
	}}}
	return t.documents(SelectionOptions{Query: mongodb.Document(query), TimeField: o.TimeField, Closed: true}), nil
}

// Amount counts the selected buckets and calls progress with the number counted so far.
func (s *Selection) Amount(ctx context.Context, progress func(buckets int64)) (total Amount, err error) {
	err = s.buckets.Find(ctx, mongodb.Query{Filter: s.Query, Projection: s.fields()}, func(d bson.Raw) error {
		total.Add(s.read(d).amount())
		progress(total.Buckets)
		return nil
	})
	return total, mongodb.Failure("counting buckets", err)
}
