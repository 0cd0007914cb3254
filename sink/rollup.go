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
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// RollupPorts are the collections that rollups are made from, and those that they are stored in.
type RollupPorts struct {
	Ports
	// Levels are the buckets of each level, by its name. LevelOptions are its options.
	Levels, LevelOptions map[string]mongodb.Collection
}

// Rollups reads the measurements of a time series for its rollups, and stores rows. Package keeper says what is read and written when.
// Each method is one attempt. It is used by one goroutine at a time.
type Rollups struct {
	name    string // of the time series
	ports   RollupPorts
	timeout time.Duration   // of a write
	session mongodb.Session // nil until the first use, and where the server has none
	fenced  time.Time       // the time of the last fence
}

// NewRollups makes Rollups of a time series. Timeout bounds a write.
func NewRollups(name string, ports RollupPorts, timeout time.Duration) *Rollups {
	return &Rollups{name: name, ports: ports, timeout: timeout}
}

// RollupsOf returns the rollups of a time series. Their collections need not exist.
func RollupsOf(db *mongodb.Database, name string) *Rollups {
	ports := RollupPorts{
		Ports: Of(db, name).Ports(), Levels: map[string]mongodb.Collection{}, LevelOptions: map[string]mongodb.Collection{},
	}
	for _, known := range []string{rollup.Minute, rollup.Hour, rollup.Day} {
		level, _ := rollup.LevelOf(known)
		of := Of(db, level.SeriesName(name)).Ports()
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

// ordered returns a context whose reads see what was written with it before.
func (r *Rollups) ordered(ctx context.Context) (context.Context, error) {
	if r.ports.Session == nil {
		return ctx, nil
	}
	if r.session == nil {
		session, err := r.ports.Session()
		if err != nil {
			return nil, fmt.Errorf("beginning a session: %w", err)
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

// RollupState is what a pass must know of the time series and of its rollups.
type RollupState struct {
	// Options define the time series.
	Options timeseries.Options
	// Segments reports that it may hold segments.
	Segments bool
	// Levels are those it has, with the expiry of each.
	Levels rollup.Levels
	// Defined says how rows are made, and since when levels are whole.
	Defined rollup.Definition
}

// State reads which rollups there are now, and how long measurements and rows are kept.
func (r *Rollups) State(ctx context.Context) (state RollupState, err error) {
	d, err := readDefinition(ctx, r.ports.Options)
	if err != nil {
		return state, err
	}
	state.Options, state.Segments = d.Options, d.Segments
	if state.Defined, err = readRollups(ctx, r.ports.Options); err != nil {
		return state, err
	}
	for _, defined := range state.Defined.Levels {
		level, _ := defined.Level()
		of, err := readDefinition(ctx, r.ports.LevelOptions[level.Name])
		if errors.Is(err, ErrNotSetUp) {
			continue // it is being dropped
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

// is is the condition that the partition document still shows the claim.
func (o *Owned) is() bson.D {
	return bson.D{{Key: "_id", Value: o.ID}, {Key: "group", Value: o.Group}, {Key: "claim", Value: uuid(o.Claim)}}
}

// Fence shows that the claim stands, and returns the partition's watermarks. Later reads are ordered after every write that
// was executed before. The error is claim.ErrOtherOwner if the claim is gone.
func (r *Rollups) Fence(ctx context.Context, o *Owned) ([]rollup.Watermark, error) {
	const doing = "fencing a partition for its rollups"
	now := time.Now().Round(0)
	if least := r.fenced.Add(time.Millisecond); now.Before(least) { // else the document would not change
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

// fieldRolled is when the rollups of a partition were fenced last.
const fieldRolled = "rolled"

// Move replaces the watermarks of a partition, if it still shows the claim and the watermarks of before; false means that it does not.
func (r *Rollups) Move(ctx context.Context, o *Owned, before, after []rollup.Watermark) (bool, error) {
	done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		return r.ports.Partitions.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(append(o.is(), bson.E{Key: rollup.FieldWatermarks, Value: before})),
			Update: mongodb.Set(bson.D{{Key: rollup.FieldWatermarks, Value: after}}),
		}})
	}))
	return done, mongodb.Failure("moving the watermark of "+o.ID, err)
}

// watermarksIn are the watermarks of a partition document, as they are stored.
func watermarksIn(d bson.Raw) string {
	if array := d.Lookup(rollup.FieldWatermarks); array.Type == bson.TypeArray {
		return string(array.Value)
	}
	return ""
}

// lowered are the fields of a claim that lower the watermark of the partition to the claim's start: everything that the owner may store
// is at or above it. A partition without rollups gets none.
//
// Between the reading of the document and the claim the former owner may have raised the watermark. The claim then sets it too low,
// which only means that hours are computed once more.
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

// Listed calls each for every bucket and segment of a source that may list offsets in [from, to), shown or not: its meta, times and
// positions.
func (r *Rollups) Listed(ctx context.Context, o timeseries.Options, source timeseries.Source, from, to int64, each func(bson.Raw) error) error {
	fields := bson.D{
		{Key: timeseries.FieldMeta, Value: 1},
		{Key: timeseries.PathVersion, Value: 1},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathSource, Value: 1},
		{Key: timeseries.PathSegment, Value: 1},
		{Key: timeseries.DataPath(o.TimeField), Value: 1},
	}
	if o.MetaField != "" {
		fields = append(fields, bson.E{Key: timeseries.DataPath(o.MetaField), Value: 1})
	}
	return r.find(ctx, "reading what was stored since the last pass", r.ports.Buckets, mongodb.Query{
		Filter: listing(source, from, to-1), Projection: mongodb.Document(fields), Batch: storedBatch,
	}, each)
}

// overlapping are the conditions that a document may hold times in [from, to), in milliseconds.
func overlapping(o timeseries.Options, from, to int64) bson.D {
	return bson.D{
		{Key: timeseries.MinPath(o.TimeField), Value: bson.D{{Key: "$gt", Value: bson.DateTime(from - o.Span())}, {Key: "$lt", Value: bson.DateTime(to)}}},
		{Key: timeseries.MaxPath(o.TimeField), Value: bson.D{{Key: "$gte", Value: bson.DateTime(from)}}},
	}
}

// Segments calls each for every segment that is shown at a moment and may hold times in [from, to).
func (r *Rollups) Segments(ctx context.Context, o timeseries.Options, now time.Time, from, to int64, each func(bson.Raw) error) error {
	return r.find(ctx, "reading segments for rollups", r.ports.Buckets, mongodb.Query{
		Filter: mongodb.Document(append(timeseries.SegmentsShown(now), overlapping(o, from, to)...)), Batch: segmentBatch,
	}, each)
}

// segmentBatch is how many segments come in one answer.
const segmentBatch = 100

// Shown calls each for every bucket of some series that is shown at a moment and may hold times in [from, to).
func (r *Rollups) Shown(
	ctx context.Context, o timeseries.Options, now time.Time, metas []bson.RawValue, from, to int64, each func(bson.Raw) error,
) error {
	filter := append(bson.D{ofMetas(metas)}, append(timeseries.BucketsShown(now), overlapping(o, from, to)...)...)
	return r.find(ctx, "reading buckets for rollups", r.ports.Buckets, mongodb.Query{Filter: mongodb.Document(filter), Batch: bucketBatch}, each)
}

// bucketBatch is how many buckets come in one answer.
const bucketBatch = 1000

// ofMetas is the condition that a document is of one of some series, or of one that compares equal. An equality finds what $in may not:
// no meta, arrays, and values that would be conditions there.
func ofMetas(metas []bson.RawValue) bson.E {
	if len(metas) == 1 {
		return isMeta(metas[0])
	}
	var plain, all bson.A
	for _, meta := range metas {
		switch {
		case meta.Type == 0, meta.Type == bson.TypeArray, meta.Type == bson.TypeRegex,
			meta.Type == bson.TypeEmbeddedDocument && strings.HasPrefix(firstName(meta), "$"):
			all = append(all, bson.D{isMeta(meta)})
		default:
			plain = append(plain, meta)
		}
	}
	among := bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$in", Value: plain}}}
	switch {
	case len(all) == 0:
		return among
	case len(plain) > 0:
		all = append(all, bson.D{among})
	}
	return bson.E{Key: "$or", Value: all}
}

// Documents calls each for the documents of a level with some _ids.
func (r *Rollups) Documents(ctx context.Context, level string, ids []bson.ObjectID, each func(bson.Raw) error) error {
	filter := mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}})
	return r.find(ctx, "reading rollup documents", r.ports.Levels[level], mongodb.Query{Filter: filter}, each)
}

// OfSeries calls each for the documents of a level that hold rows of a series.
func (r *Rollups) OfSeries(ctx context.Context, level string, meta bson.RawValue, each func(bson.Raw) error) error {
	return r.find(ctx, "reading the rollups of a series", r.ports.Levels[level], mongodb.Query{Filter: mongodb.Document(bson.D{isMeta(meta)})}, each)
}

// Put stores documents of a level, each with a revision: 1 is inserted, and any other replaces the document of the revision before.
// All reports whether each was stored. Without it another writer was quicker with one of them, at least: what the documents were
// computed from must be read again.
func (r *Rollups) Put(ctx context.Context, level string, o timeseries.Options, documents []rollup.Document) (all bool, err error) {
	const doing = "storing rollup rows"
	var inserts []bson.Raw
	var updates []mongodb.Update
	for i := range documents {
		d := &documents[i]
		if d.Revision == 1 {
			inserts = append(inserts, d.Encode(o))
			continue
		}
		control, data := d.Contents(o)
		updates = append(updates, mongodb.Update{
			Filter: mongodb.Document(bson.D{
				{Key: timeseries.FieldID, Value: d.ID},
				isMeta(d.Meta),
				{Key: timeseries.MinPath(o.TimeField), Value: bson.DateTime(d.From)},
				{Key: rollup.PathRevision, Value: d.Revision - 1},
			}),
			Update: mongodb.Set(bson.D{{Key: timeseries.FieldControl, Value: control}, {Key: timeseries.FieldData, Value: data}}),
		})
	}
	all = true
	for some := range slices.Chunk(updates, maxRollupWrites) {
		n, err := mongodb.Executed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) { return r.ports.Levels[level].Update(ctx, some) }))
		if err != nil {
			return false, mongodb.Failure(doing, err)
		}
		all = all && n == int64(len(some))
	}
	for some := range slices.Chunk(inserts, maxRollupWrites) {
		reply, err := r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) { return r.ports.Levels[level].Insert(ctx, some) })
		if err != nil {
			return false, mongodb.Failure(doing, err)
		}
		for _, e := range reply.Errors {
			if e.Code != mongodb.CodeDuplicateKey {
				return false, mongodb.Failure(doing, &mongodb.CommandError{Code: e.Code, Message: e.Message})
			}
			all = false
		}
		if reply.Unconfirmed != nil {
			return false, mongodb.Failure(doing, reply.Unconfirmed)
		}
	}
	return all, nil
}

// maxRollupWrites bounds the documents of one command: a short one disturbs others little.
const maxRollupWrites = 64

// RollupPartition are the watermarks of a partition.
type RollupPartition struct {
	PartitionDocument
	Watermarks []rollup.Watermark
}

// Partitions returns the watermarks of all partitions, in the order of their ids.
func (r *Rollups) Partitions(ctx context.Context) (all []RollupPartition, err error) {
	err = r.find(ctx, "reading the watermarks", r.ports.Partitions, mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(d bson.Raw) error {
		all = append(all, RollupPartition{parsePartitionDocument(d), rollup.Watermarks(d)})
		return nil
	})
	slices.SortFunc(all, func(a, b RollupPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), strings.Compare(a.ID, b.ID))
	})
	return all, err
}

// SeriesIn calls each for every bucket, segment and rollup document that may have times in [from, to), of the series that a query on
// buckets finds; nil finds all. Of buckets only the meta comes.
func (r *Rollups) SeriesIn(
	ctx context.Context, o timeseries.Options, levels rollup.Levels, filter bson.Raw, from, to int64, each func(bson.Raw) error,
) error {
	const doing = "looking which series there are"
	selected := func(of timeseries.Options) bson.D {
		conditions := overlapping(of, from, to)
		if filter == nil {
			return conditions
		}
		return bson.D{{Key: "$and", Value: bson.A{filter, conditions}}}
	}
	only := mongodb.Document(bson.D{{Key: timeseries.FieldMeta, Value: 1}})
	buckets := append(selected(o), bson.E{Key: timeseries.PathOwner, Value: bson.D{{Key: "$exists", Value: false}}})
	if err := r.find(ctx, doing, r.ports.Buckets, mongodb.Query{Filter: mongodb.Document(buckets), Projection: only}, each); err != nil {
		return err
	}
	if filter == nil { // a filter on the meta does not find segments: they are compacted soon, and a pass computes their rows
		segments := append(overlapping(o, from, to), timeseries.IsSegment())
		if err := r.find(ctx, doing, r.ports.Buckets, mongodb.Query{Filter: mongodb.Document(segments), Batch: segmentBatch}, each); err != nil {
			return err
		}
	}
	for _, l := range levels {
		if err := r.find(ctx, doing, r.ports.Levels[l.Name], mongodb.Query{Filter: mongodb.Document(selected(l.Options(o))), Projection: only}, each); err != nil {
			return err
		}
	}
	return nil
}

// Bounds calls each with the first and the last time, in milliseconds, of every bucket and segment.
func (r *Rollups) Bounds(ctx context.Context, o timeseries.Options, each func(first, last int64)) error {
	for _, order := range []int32{1, -1} {
		query := mongodb.Query{
			Filter: mongodb.Document(bson.D{}), Limit: 1, Sort: mongodb.Document(bson.D{{Key: timeseries.FieldID, Value: order}}),
			Projection: mongodb.Document(bson.D{{Key: timeseries.MinPath(o.TimeField), Value: 1}, {Key: timeseries.MaxPath(o.TimeField), Value: 1}}),
		}
		err := r.find(ctx, "looking for the first and the last bucket", r.ports.Buckets, query, func(d bson.Raw) error {
			first, one := d.Lookup(timeseries.FieldControl, timeseries.FieldMin, o.TimeField).DateTimeOK()
			last, other := d.Lookup(timeseries.FieldControl, timeseries.FieldMax, o.TimeField).DateTimeOK()
			if one && other {
				each(first, max(last, first+o.Span()))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
