package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// RollupPorts are the collections that rollups are computed from, and the collections that store them.
type RollupPorts struct {
	collection.Ports
	// Levels are the buckets of each level, by its name. LevelOptions are the options of each level.
	Levels, LevelOptions map[string]mongodb.Collection
}

// Rollups reads the measurements of a time series for its rollups, and stores rows. Package keeper decides what is read and
// written when. Each method is one attempt. Only one goroutine uses it at a time.
type Rollups struct {
	name    string // of the time series
	ports   RollupPorts
	timeout time.Duration   // of a write
	session mongodb.Session // nil until the first use, and if the server has no sessions
	fenced  time.Time       // the time of the last fence
}

// NewRollups makes the Rollups of a time series. The argument timeout bounds a write.
func NewRollups(name string, ports RollupPorts, timeout time.Duration) *Rollups {
	return &Rollups{name: name, ports: ports, timeout: timeout}
}

// RollupsOf returns the rollups of a time series. Their collections need not exist.
func RollupsOf(db *mongodb.Database, name string) *Rollups {
	ports := RollupPorts{
		Ports: collection.Of(db, name).Ports(), Levels: map[string]mongodb.Collection{}, LevelOptions: map[string]mongodb.Collection{},
	}
	for _, known := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		level, _ := rollup.LevelOf(known)
		of := collection.Of(db, level.SeriesName(name)).Ports()
		ports.Levels[known], ports.LevelOptions[known] = of.Buckets, of.Options
	}
	return NewRollups(name, ports, db.WriteTimeout())
}

// Name is the name of the time series.
func (r *Rollups) Name() string { return r.name }

// Close ends the session.
func (r *Rollups) Close() {
	if r.session != nil {
		r.session.End()
		r.session = nil
	}
}

// ordered returns a context whose reads see earlier writes made with it.
func (r *Rollups) ordered(ctx context.Context) (context.Context, error) {
	if r.ports.Session == nil {
		return ctx, nil
	}
	if r.session == nil {
		session, err := r.ports.Session()
		if err != nil {
			return nil, fmt.Errorf("starting a session: %w", err)
		}
		r.session = session
	}
	return r.session.Context(ctx), nil
}

func (r *Rollups) find(ctx context.Context, doing string, c mongodb.Collection, q mongodb.Query, each func(bson.Raw) error) error {
	ctx, err := r.ordered(ctx)
	if err == nil {
		err = c.Find(ctx, q, each)
	}
	return mongodb.Failure(doing, err)
}

// write sends one write in the session, within the write timeout.
func (r *Rollups) write(ctx context.Context, send func(context.Context) (mongodb.Reply, error)) (mongodb.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	ctx, err := r.ordered(ctx)
	if err != nil {
		return mongodb.Reply{}, &mongodb.NotSentError{Err: err}
	}
	reply, err := send(ctx)
	return reply, mongodb.Within(r.timeout, err)
}

// RollupState is what a pass must know about the time series and its rollups.
type RollupState struct {
	// Options define the time series.
	Options timeseries.Options
	// Segments means that the time series may hold segments.
	Segments bool
	// Levels are the existing levels, each with its expiry.
	Levels rollup.Levels
	// Defined says how rows are made, and since when levels are complete.
	Defined rollup.Definition
}

// State reads the present rollups, and how long measurements and rows are kept.
func (r *Rollups) State(ctx context.Context) (state RollupState, err error) {
	d, err := collection.ReadDefinition(ctx, r.ports.Options)
	if err != nil {
		return state, err
	}
	state.Options, state.Segments = d.Options, d.Segments
	if state.Defined, err = collection.ReadRollups(ctx, r.ports.Options); err != nil {
		return state, err
	}
	for _, defined := range state.Defined.Levels {
		level, _ := defined.Level()
		of, err := collection.ReadDefinition(ctx, r.ports.LevelOptions[level.Name])
		if errors.Is(err, collection.ErrNotSetUp) {
			continue // the level is being dropped
		}
		if err != nil {
			return state, err
		}
		level.Expire = time.Duration(of.ExpireAfterSeconds) * time.Second
		state.Levels = append(state.Levels, level)
	}
	return state, nil
}

// Owned is a partition that this process owns, by the claim in its document.
type Owned struct {
	Source timeseries.Source
	// ID is the _id of the partition document.
	ID    string
	Group string
	Claim claim.Token
}

// is returns the condition that the partition document still shows the claim.
func (o *Owned) is() bson.D {
	return bson.D{{Key: "_id", Value: o.ID}, {Key: "group", Value: o.Group}, {Key: "claim", Value: timeseries.UUID(o.Claim)}}
}

// Fence proves that the claim stands, and returns the partition's watermarks. Later reads see every write whose answer this process
// has had before, on all shards: with the fence the client tells the server the latest time of all answers, and gets a later one.
// The error is claim.ErrOtherOwner if the claim is gone.
func (r *Rollups) Fence(ctx context.Context, o *Owned) ([]rollup.Watermark, error) {
	const doing = "fencing a partition for its rollups"
	now := time.Now().Round(0)
	if least := r.fenced.Add(time.Millisecond); now.Before(least) { // otherwise the document would not change
		now = least
	}
	r.fenced = now
	done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		return r.ports.Partitions.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(o.is()), Update: mongodb.Set(bson.D{{Key: fieldRolled, Value: bson.NewDateTimeFromTime(now)}}),
		}})
	}))
	if err != nil {
		return nil, mongodb.Failure(doing, err)
	}
	if !done {
		return nil, claim.ErrOtherOwner
	}
	var marks []rollup.Watermark
	err = r.find(ctx, doing, r.ports.Partitions, mongodb.Query{Filter: mongodb.WithID(o.ID), Limit: 1}, func(d bson.Raw) error {
		marks = rollup.Watermarks(d)
		return nil
	})
	return marks, err
}

// fieldRolled is the time of the last fence for the partition's rollups.
const fieldRolled = "rolled"

// Move replaces the watermarks of a partition, if its document still shows the claim and the watermarks of before. False means
// that it does not.
func (r *Rollups) Move(ctx context.Context, o *Owned, before, after []rollup.Watermark) (bool, error) {
	done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		return r.ports.Partitions.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(append(o.is(), bson.E{Key: rollup.FieldWatermarks, Value: before})),
			Update: mongodb.Set(bson.D{{Key: rollup.FieldWatermarks, Value: after}}),
		}})
	}))
	return done, mongodb.Failure("storing the rollup progress of "+o.ID, err)
}

// watermarksIn returns the watermarks of a partition document, as they are stored.
func watermarksIn(d bson.Raw) string {
	if array := d.Lookup(rollup.FieldWatermarks); array.Type == bson.TypeArray {
		return string(array.Value)
	}
	return ""
}

// lowered returns the fields of a claim that lower the partition's watermark to the claim's start. Everything that the owner
// may store is at or above that start. Without rollups lowered returns none.
//
// The former owner may raise the watermark after the document was read and before the claim. The claim then sets it too low,
// and hours are computed once more, which is the only harm.
func (p *Partition) lowered(seen claim.Document, start int64) bson.D {
	if seen.Watermarks == "" && !p.store.Rollups {
		return nil
	}
	var list []rollup.Watermark
	if seen.Watermarks != "" {
		array := bson.RawValue{Type: bson.TypeArray, Value: []byte(seen.Watermarks)}
		list = rollup.Watermarks(mongodb.Document(bson.D{{Key: rollup.FieldWatermarks, Value: array}}))
	}
	return bson.D{{Key: rollup.FieldWatermarks, Value: rollup.Lowered(list, p.source.TopicID, start)}}
}

// Clock is the server's time.
func (r *Rollups) Clock(ctx context.Context) (time.Time, error) { return r.ports.Clock(ctx) }

// RollupPartition is a partition document with its watermarks.
type RollupPartition struct {
	PartitionDocument
	Watermarks []rollup.Watermark
}

// Partitions returns the watermarks of all partitions, in the order of their ids.
func (r *Rollups) Partitions(ctx context.Context) (all []RollupPartition, err error) {
	err = r.find(ctx, "reading the rollup progress", r.ports.Partitions, mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(d bson.Raw) error {
		all = append(all, RollupPartition{parsePartitionDocument(d), rollup.Watermarks(d)})
		return nil
	})
	slices.SortFunc(all, func(a, b RollupPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), strings.Compare(a.ID, b.ID))
	})
	return all, err
}
