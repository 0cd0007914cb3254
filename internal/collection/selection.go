package collection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Bounds of what a Selection holds in memory and puts into one command.
const (
	maxSelectedBytes = 512 << 20 // of metas, and the kept data of each
	seriesOverhead   = 160       // of a series beside its meta, at most
	maxChanged       = 64        // buckets, each by an update of its own: a short command disturbs others little
	maxDeleted       = 1000
	minEdited        = 4 // buckets: so low goes the bound when answers do not come
	maxEditedBytes   = 4 << 20
)

// Selection is the buckets of a time series that a query on buckets finds, to be edited as whole documents beside the
// consumers that write them. Those meet the conditions of their updates (E5), and find out what happened.
//
// Each method is one attempt: after an *OutageError it can be made again.
type Selection struct {
	SelectionOptions
	buckets, options mongodb.Editable
	due              func(ctx context.Context) error // asked before each batch; its error ends the edit. Nil means that nothing is asked.
	unnoted          bool                            // The deleted measurements have expired: they need no notes.
}

// SelectionOptions say what a Selection finds, and how it is edited.
type SelectionOptions struct {
	// Query is one on buckets.
	Query bson.Raw
	// TimeField is the field of the time series. The smallest time of a bucket is part of its shard key.
	TimeField string
	// Closed buckets are edited too. Without it the edits leave them alone, except those that were made of segments: these are
	// closed from the first moment, so nobody has had a chance to edit them before.
	Closed bool
	// BucketsOnly leaves segments alone. Without it they are documents like others.
	BucketsOnly bool
	// Timeout bounds a write.
	Timeout time.Duration
	// Move applies updates that change the shard key. Nil stands for Update of the buckets.
	Move func(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error)
}

// NewSelection makes a Selection. Options is the options collection: it takes the notes of what is edited, and scratch documents
// that are deleted again.
func NewSelection(buckets, options mongodb.Editable, o SelectionOptions) *Selection {
	if o.Move == nil {
		o.Move = buckets.Update
	}
	return &Selection{SelectionOptions: o, buckets: buckets, options: options}
}

// Select is the Selection of a query on the buckets of the time series, which timeseries.Options translates. Segments are left alone:
// sink.Contents.Compact waits until the present segments are in buckets.
func (t TimeSeries) Select(timeField string, query bson.Raw, closed bool) *Selection {
	return t.documents(SelectionOptions{Query: query, TimeField: timeField, Closed: closed, BucketsOnly: true})
}

// documents is the Selection of whole documents, buckets or segments.
func (t TimeSeries) documents(o SelectionOptions) *Selection {
	ports := t.Ports()
	if o.Timeout = t.db.WriteTimeout(); t.db.Server().Sharded {
		o.Move = func(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
			return t.db.MoveKeys(ctx, t.name+timeseries.BucketsSuffix, updates)
		}
	}
	return NewSelection(ports.Buckets, ports.Options, o)
}

// Amount is a number of buckets, and of measurements in them.
type Amount struct {
	Buckets      int64 `json:"buckets"`
	Measurements int64 `json:"measurements"`
}

// Add adds an amount.
func (a *Amount) Add(b Amount) {
	a.Buckets += b.Buckets
	a.Measurements += b.Measurements
}

// IsZero reports whether it is nothing.
func (a Amount) IsZero() bool { return a == Amount{} }

// SelectedSeries is a series of a Selection, and what it holds of it in open and in closed buckets.
type SelectedSeries struct {
	Meta         bson.RawValue // Type 0 means none.
	Open, Closed Amount        // buckets that were made of segments count as open
}

// Series lists the series of the selection in the order of MongoDB's sort, and calls progress with the number of buckets
// looked at. Two metas that only compare equal, such as 1 and 1.0, are two series.
func (s *Selection) Series(ctx context.Context, progress func(buckets int64)) ([]SelectedSeries, error) {
	list := seriesList{index: map[string]int{}}
	var looked int64
	err := s.buckets.Find(ctx, mongodb.Query{Filter: s.bucketQuery(), Projection: s.fields()}, func(d bson.Raw) error {
		looked++
		progress(looked)
		b := s.read(d)
		return list.add(b.meta, b.amount(), b.closed)
	})
	if errors.Is(err, errTooManySeries) {
		return nil, err
	}
	if err != nil {
		return nil, mongodb.Failure("looking for buckets", err)
	}
	slices.SortFunc(list.all, func(a, b SelectedSeries) int { return timeseries.Compare(a.Meta, b.Meta) })
	return list.all, nil
}

// errTooManySeries means that there are more series than the memory of a Selection takes.
var errTooManySeries = errors.New("run once for each of several narrower filters")

// seriesList is a list of series that is being made.
type seriesList struct {
	all   []SelectedSeries
	index map[string]int // in all, by series
	held  int            // bytes
}

// add adds an amount of a series.
func (l *seriesList) add(meta bson.RawValue, amount Amount, closed bool) error {
	i, known := l.index[timeseries.Key(meta)]
	if !known {
		if l.held += len(meta.Value) + seriesOverhead; l.held > maxSelectedBytes {
			return fmt.Errorf("the filter finds more than %d series, whose metas would take more than %d MiB of memory: %w",
				len(l.all), maxSelectedBytes>>20, errTooManySeries)
		}
		i = len(l.all)
		meta = timeseries.Clone(meta)
		l.index[timeseries.Key(meta)] = i
		l.all = append(l.all, SelectedSeries{Meta: meta})
	}
	if closed {
		l.all[i].Closed.Add(amount)
	} else {
		l.all[i].Open.Add(amount)
	}
	return nil
}

// Holds reports whether the time series, selected or not, has a bucket with exactly this meta.
func (s *Selection) Holds(ctx context.Context, meta bson.RawValue) (bool, error) {
	wanted, found := timeseries.Key(meta), false
	filter := append(bson.D{timeseries.HasMeta(meta)}, s.notSegments()...)
	err := s.buckets.Find(ctx, mongodb.Query{Filter: mongodb.Document(filter), Projection: s.fields()}, func(d bson.Raw) error {
		if s.read(d).series() == wanted {
			found = true
			return errEnough
		}
		return nil
	})
	if found {
		return true, nil
	}
	return false, mongodb.Failure("looking for a series", err)
}

// errEnough ends a query whose answer is known.
var errEnough = errors.New("enough was read")

// edited is what an edit reads of a bucket.
type edited struct {
	id      bson.RawValue
	meta    bson.RawValue // Type 0 means none.
	min     bson.RawValue // its smallest time. Type 0 means none.
	count   int64
	counted bson.RawValue // control.count as the document has it
	closed  bool          // and not made of segments
	listed  bson.Raw      // the document as it was read, for its notes. Nil means that nothing is noted.
}

// fields is the projection of what read reads, and of more.
func (s *Selection) fields(more ...bson.E) bson.Raw {
	return mongodb.Document(append(bson.D{
		{Key: timeseries.FieldMeta, Value: 1},
		{Key: timeseries.MinPath(s.TimeField), Value: 1},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathClosed, Value: 1},
		{Key: timeseries.PathCompactionID, Value: 1},
	}, more...))
}

// read reads a bucket of whatever origin; its values are those of the document.
func (s *Selection) read(d bson.Raw) edited {
	b := edited{id: d.Lookup(timeseries.FieldID), meta: d.Lookup(timeseries.FieldMeta)}
	b.min = d.Lookup(timeseries.FieldControl, timeseries.FieldMin, s.TimeField)
	b.counted = d.Lookup(timeseries.FieldControl, timeseries.FieldCount)
	b.count, _ = b.counted.AsInt64OK()
	closed, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldClosed).BooleanOK()
	b.closed = closed && d.Lookup(timeseries.FieldControl, timeseries.FieldCompaction, timeseries.FieldCompactionID).Type == 0
	return b
}

func (b edited) series() string { return timeseries.Key(b.meta) }

// key is the bucket's _id, as bytes.
func (b edited) key() string { return timeseries.Key(b.id) }

func (b edited) amount() Amount { return Amount{Buckets: 1, Measurements: b.count} }

func (b edited) cloned() edited {
	b.id, b.meta, b.min, b.counted, b.listed = timeseries.Clone(b.id), timeseries.Clone(b.meta), timeseries.Clone(b.min), timeseries.Clone(b.counted), slices.Clone(b.listed)
	return b
}

// asRead is the filter that finds the bucket by its _id and shard key, as long as it has the measurements with which it was read: every
// write that adds measurements makes its count larger.
func (s *Selection) asRead(b edited) bson.D {
	return append(timeseries.FullKey(b.id, b.meta, s.TimeField, b.min), timeseries.IsAsRead(timeseries.PathCount, b.counted))
}

// bucketQuery is the query for the buckets of the selection.
func (s *Selection) bucketQuery() bson.Raw {
	if !s.BucketsOnly {
		return s.Query
	}
	return mongodb.Document(bson.D{{Key: "$and", Value: bson.A{s.Query, s.notSegments()}}})
}

// notSegments is the condition that a document is a bucket, if segments are something else.
func (s *Selection) notSegments() bson.D {
	if !s.BucketsOnly {
		return nil
	}
	return bson.D{timeseries.IsAbsent(timeseries.PathOwner)}
}

// editable is the query for the buckets that an edit may change.
func (s *Selection) editable() bson.Raw {
	if s.Closed {
		return s.bucketQuery()
	}
	return mongodb.Document(bson.D{{Key: "$and", Value: bson.A{s.bucketQuery(), bson.D{s.open()}}}})
}

// open is the condition that a bucket is not closed, or was made of segments.
func (s *Selection) open() bson.E {
	return bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: timeseries.PathClosed, Value: bson.D{{Key: "$ne", Value: true}}}},
		bson.D{timeseries.IsPresent(timeseries.PathCompactionID)},
	}}
}

// among is the query for buckets by their _id.
func among(buckets []edited) bson.E {
	ids := make(bson.A, len(buckets))
	for i, b := range buckets {
		ids[i] = b.id
	}
	return bson.E{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}
}
