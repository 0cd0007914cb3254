package collection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Upkeep is what the server does with the buckets of a time series by itself. It deletes them by an index, and narrows queries on
// the view. Both depend on the collection's options and must change together with them.
type Upkeep interface {
	// Expiry returns after how many seconds from its minimum time a bucket is deleted. Zero means never.
	Expiry(ctx context.Context) (int32, error)
	// EvenExpiry gives all shards of a cluster the expiry of the shard that Expiry reads. An earlier change may have reached only
	// some shards. The expiry of each shard is right for the definition. Without a cluster it does nothing.
	EvenExpiry(ctx context.Context) error
	// SetExpiry changes the expiry. It does nothing on a server that deletes nothing by itself.
	SetExpiry(ctx context.Context, seconds int32) error
	// ViewSpan returns how many seconds behind a bucket's minimum time the view looks for measurements. Zero means everywhere.
	ViewSpan(ctx context.Context) (int32, error)
	// SetViewSpan changes the span of the view, unless that is 0.
	SetViewSpan(ctx context.Context, seconds int32) error
}

// widen makes expiry and view right for buckets of these options and of all earlier ones. It never makes a bucket expire earlier,
// or the view show less, than now.
func widen(ctx context.Context, u Upkeep, o timeseries.Options) error {
	expiry, err := u.Expiry(ctx)
	if err != nil {
		return err
	}
	if want := o.TTLSeconds(); deletesEarly(expiry, want) {
		if err := u.SetExpiry(ctx, want); err != nil {
			return err
		}
	}
	span, err := u.ViewSpan(ctx)
	if err != nil || span == 0 || span >= o.MaxSpanSeconds {
		return err
	}
	return u.SetViewSpan(ctx, o.MaxSpanSeconds)
}

// deletesEarly reports whether an expiry deletes buckets that the wanted one would still keep, both in seconds. Zero means never.
func deletesEarly(expiry, want int32) bool { return expiry != 0 && (want == 0 || want > expiry) }

// tighten makes buckets expire as early as the options say.
func tighten(ctx context.Context, u Upkeep, o timeseries.Options) error {
	want := o.TTLSeconds()
	if want == 0 {
		return nil
	}
	expiry, err := u.Expiry(ctx)
	if err != nil || expiry != 0 && expiry <= want {
		return err
	}
	return u.SetExpiry(ctx, want)
}

// Covers reports whether expiry and view are right for buckets of these options. If they are not, a consumer must not write such
// buckets, because they would be deleted early or hidden.
func Covers(ctx context.Context, u Upkeep, o timeseries.Options) (bool, error) {
	expiry, err := u.Expiry(ctx)
	if err != nil {
		return false, err
	}
	if deletesEarly(expiry, o.TTLSeconds()) {
		return false, nil
	}
	span, err := u.ViewSpan(ctx)
	return span == 0 || span >= o.MaxSpanSeconds, err
}

// Expiry implements Upkeep.
func (s *series) Expiry(ctx context.Context) (int32, error) {
	_, seconds, _, err := s.expiryNow(ctx)
	return int32(seconds), err
}

// EvenExpiry implements Upkeep. The index may be missing on the shard that lists it, and still delete on others.
func (s *series) EvenExpiry(ctx context.Context) error {
	if !s.db.Server().Sharded {
		return nil
	}
	const operation = "setting the same expiry on all shards"
	name, seconds, found, err := s.expiryNow(ctx)
	switch {
	case err != nil:
		return err
	case found:
		return mongodb.Failure(operation, s.modifyExpiry(ctx, name, seconds))
	}
	err = s.db.Translate(s.buckets().Indexes().DropOne(ctx, timeseries.MinPath(s.options.TimeField)+"_1"))
	if mongodb.HasCode(err, mongodb.CodeIndexNotFound, mongodb.CodeNamespaceNotFound) {
		return nil
	}
	return mongodb.Failure(operation, err)
}

// SetExpiry implements Upkeep.
func (s *series) SetExpiry(ctx context.Context, seconds int32) error {
	const operation = "changing the expiry"
	name, _, found, err := s.expiryNow(ctx)
	switch {
	case err != nil:
		return err
	case !found:
		return s.createExpiry(ctx, seconds)
	case seconds == 0:
		return mongodb.Failure(operation, s.db.Translate(s.buckets().Indexes().DropOne(ctx, name)))
	}
	err = s.modifyExpiry(ctx, name, int64(seconds))
	if mongodb.HasCode(err, mongodb.CodeCommandNotFound, mongodb.CodeNotImplemented) {
		if err = s.db.Translate(s.buckets().Indexes().DropOne(ctx, name)); err == nil {
			return s.createExpiry(ctx, seconds)
		}
	}
	return mongodb.Failure(operation, err)
}

// createExpiry makes the expiry index if the server has such indexes.
func (s *series) createExpiry(ctx context.Context, seconds int32) error {
	if seconds == 0 {
		return nil
	}
	return s.createIndex(ctx, expiryIndex(s.options), options.Index().SetExpireAfterSeconds(seconds))
}

// ViewSpan implements Upkeep.
func (s *series) ViewSpan(ctx context.Context) (int32, error) {
	have, err := s.existing(ctx, s.name)
	if err != nil {
		return 0, err
	}
	return s.viewSpan(have), nil
}

// viewSpan returns the span of an existing view, the smaller one of its parts. Zero means that it looks everywhere, or is no view
// of the buckets.
func (s *series) viewSpan(have existing) int32 {
	if !s.isView(have) {
		return 0
	}
	least := int32(0)
	for _, stage := range ownStages(have.pipeline) {
		own, _ := stage.DocumentOK()
		seconds, _ := own.Lookup("bucketMaxSpanSeconds").AsInt64OK()
		span := max(1, int32(seconds)) // a stage without a span looks nearly nowhere
		if least == 0 || span < least {
			least = span
		}
	}
	return least
}

// SetViewSpan implements Upkeep. It reads again whether there are segments, because a consumer may have begun them since the
// options were read. None begins them while a change holds the lock.
func (s *series) SetViewSpan(ctx context.Context, seconds int32) error {
	definition, err := ReadDefinition(ctx, s.ports.Options)
	if err != nil {
		return err
	}
	have, err := s.existing(ctx, s.name)
	if err != nil || !s.isView(have) || s.kindOf(have) != ViewInternal {
		return err
	}
	wider := *s
	wider.options.MaxSpanSeconds, wider.segments = seconds, definition.Segments || s.showsSegments(have)
	return wider.updateView(ctx, have, ViewInternal)
}

// modifyExpiry changes after how many seconds an index deletes buckets. MongoDB lists an index that it is still building, but
// does not find it for the change.
func (s *series) modifyExpiry(ctx context.Context, index string, seconds int64) error {
	change := bson.D{{Key: "name", Value: index}, {Key: "expireAfterSeconds", Value: seconds}}
	err := s.modify(ctx, s.buckets().Name(), bson.E{Key: "index", Value: change})
	if mongodb.HasCode(err, mongodb.CodeIndexNotFound) {
		return fmt.Errorf("MongoDB may still be building the index %s: run the command again when `waterwheel collection indexes` no longer shows the build: %w", index, err)
	}
	return err
}

// modify sends a collMod that no election undoes after its acknowledgement.
func (s *series) modify(ctx context.Context, name string, what ...bson.E) error {
	command := append(bson.D{{Key: "collMod", Value: name}}, what...)
	return s.db.Translate(s.driver().RunCommand(ctx, append(command, bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}})).Err())
}

// expiryOfNoIndex returns the change of a collMod that only tries its right. No index has this name.
func expiryOfNoIndex(seconds int64) bson.E {
	return bson.E{Key: "index", Value: bson.D{{Key: "name", Value: "waterwheel"}, {Key: "expireAfterSeconds", Value: seconds}}}
}

// listPause is the time before MongoDB is asked again whether it lists an index.
const listPause = 100 * time.Millisecond

// lastingUpkeep is the Upkeep of one change of options. MongoDB may build a first index on many buckets for longer than a change
// may hold the lock. A deadline would discard the build each time. So the change only begins the build under the lock. As soon as
// MongoDB lists the index, the next change of options finds it. wait waits for the rest of the build afterwards.
type lastingUpkeep struct {
	*series
	create func(seconds int32) error // without the deadline of the lock
	built  chan error                // Nil means that nothing is being built.
}

// SetExpiry implements Upkeep.
func (u *lastingUpkeep) SetExpiry(ctx context.Context, seconds int32) error {
	_, _, found, err := u.expiryNow(ctx)
	if err != nil {
		return err
	}
	if found || seconds == 0 {
		return u.series.SetExpiry(ctx, seconds)
	}
	u.built = make(chan error, 1)
	go func() { u.built <- u.create(seconds) }()
	for {
		select {
		case err := <-u.built:
			u.built = nil
			return err
		case <-ctx.Done():
			return nil // wait returns the error
		case <-time.After(listPause):
		}
		if now, err := u.Expiry(ctx); err == nil && now != 0 {
			return nil
		}
	}
}

// wait waits until nothing is being built. It reports whether something was being built.
func (u *lastingUpkeep) wait(ctx context.Context) (bool, error) {
	if u.built == nil {
		return false, nil
	}
	err := <-u.built
	u.built = nil
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: MongoDB may continue to build the index that deletes measurements; run the same command again to see the build, or to start it again", context.Cause(ctx))
	}
	return true, err
}

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
	age, _ := expiryIn(user.Options)
	query := bson.D{{Key: "$and", Value: bson.A{
		index.Options.Lookup("partialFilterExpression"), olderThan(o, now.Add(-time.Duration(age)*time.Second)),
	}}}
	return t.documents(SelectionOptions{Query: mongodb.Document(query), TimeField: o.TimeField, Closed: true}), nil
}
