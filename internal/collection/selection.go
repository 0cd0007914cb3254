package collection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// Bounds of a Selection's memory and of its commands.
const (
	maxSelectedBytes = 512 << 20 // of metas, each with its kept data
	seriesOverhead   = 160       // of a series without its meta, at most
	maxChanged       = 64        // buckets, each with its own update; short commands disturb other clients little
	maxDeleted       = 1000
	minEdited        = 4 // buckets; the least size of a batch after answers did not come
	maxEditedBytes   = 4 << 20
)

// Selection is the buckets of a time series that a query on buckets finds. It edits them as whole documents while consumers write
// them. The conditions of the consumers' updates (E5) fail then, and the consumers find out what happened.
//
// Each method is one attempt. After an *OutageError it may be called again.
type Selection struct {
	SelectionOptions
	buckets, options mongodb.Editable
	due              func(ctx context.Context) error // called before each batch; its error ends the edit. Nil means no call.
	unnoted          bool                            // the deleted measurements have expired, so they need no notes
}

// SelectionOptions say what a Selection finds and how it edits.
type SelectionOptions struct {
	// Query is a query on buckets.
	Query bson.Raw
	// TimeField is the time field of the time series. A bucket's smallest time is a part of its shard key.
	TimeField string
	// Closed includes closed buckets in edits. Without it, edits leave them alone, except buckets that were made of segments.
	// Those are closed from the beginning, so no edit could have changed them earlier.
	Closed bool
	// BucketsOnly leaves segments alone. Without it they are edited like buckets.
	BucketsOnly bool
	// Timeout bounds a write.
	Timeout time.Duration
	// AwaitInserts returns when no insert that was sent before can be executed any more. An edit of metas calls it for the buckets
	// that it has read. Nil means no wait.
	AwaitInserts func(ctx context.Context) error
	// Move applies updates that change the shard key. Nil means Update of the buckets.
	Move func(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error)
}

// NewSelection makes a Selection. options is the options collection. It takes the notes of edits, and scratch documents that are
// deleted again.
func NewSelection(buckets, options mongodb.Editable, o SelectionOptions) *Selection {
	if o.Move == nil {
		o.Move = buckets.Update
	}
	return &Selection{SelectionOptions: o, buckets: buckets, options: options}
}

// Select returns the Selection of a query on the buckets of the time series, as timeseries.Options translates it. It leaves
// segments alone. sink.Contents.Compact waits until the present segments are in buckets.
func (t TimeSeries) Select(timeField string, query bson.Raw, closed bool) *Selection {
	return t.documents(SelectionOptions{Query: query, TimeField: timeField, Closed: closed, BucketsOnly: true})
}

// documents returns a Selection of whole documents, which are buckets or segments.
func (t TimeSeries) documents(o SelectionOptions) *Selection {
	ports := t.Ports()
	if o.Timeout = t.db.WriteTimeout(); t.db.Server().Sharded {
		o.Move = func(ctx context.Context, updates []mongodb.Update) (mongodb.Reply, error) {
			return t.db.MoveKeys(ctx, t.name+timeseries.BucketsSuffix, updates)
		}
		o.AwaitInserts = t.awaitInserts
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

// IsZero reports whether the amount is zero.
func (a Amount) IsZero() bool { return a == Amount{} }

// SelectedSeries is a series of a Selection, with its amounts in open and in closed buckets.
type SelectedSeries struct {
	Meta         bson.RawValue // Type 0 means none.
	Open, Closed Amount        // buckets that were made of segments count as open
}

// Series lists the series of the selection in MongoDB's sort order, and calls progress with the number of buckets read so far.
// Two metas that only compare equal, such as 1 and 1.0, are two series.
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

// Amount counts the selected buckets and calls progress with the number counted so far.
func (s *Selection) Amount(ctx context.Context, progress func(buckets int64)) (total Amount, err error) {
	err = s.buckets.Find(ctx, mongodb.Query{Filter: s.Query, Projection: s.fields()}, func(d bson.Raw) error {
		total.Add(s.read(d).amount())
		progress(total.Buckets)
		return nil
	})
	return total, mongodb.Failure("counting buckets", err)
}

// errTooManySeries means that the series do not fit into the memory of a Selection.
var errTooManySeries = errors.New("run the command once for each of several narrower filters")

// seriesList is a list of series under construction.
type seriesList struct {
	all   []SelectedSeries
	index map[string]int // index in all, by series
	held  int            // bytes
}

// add adds an amount to a series.
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

// Holds reports whether the time series has a bucket with exactly this meta, whether selected or not.
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
		err = nil // errEnough
	}
	return found, mongodb.Failure("looking for a series", err)
}

// errEnough ends a query whose answer is known.
var errEnough = errors.New("enough was read")

// edited holds the fields of a bucket that an edit reads.
type edited struct {
	id      bson.RawValue
	meta    bson.RawValue // Type 0 means none.
	min     bson.RawValue // its smallest time. Type 0 means none.
	count   int64
	counted bson.RawValue // control.count as the document has it
	closed  bool          // closed, and not made of segments
	from    time.Time     // queries see it from then on. Zero means that it was not made of segments.
	listed  bson.Raw      // the document as read, for its notes. Nil means that nothing is noted.
}

// fields returns the projection for read, with more fields.
func (s *Selection) fields(more ...bson.E) bson.Raw {
	return mongodb.Document(append(bson.D{
		{Key: timeseries.FieldMeta, Value: 1},
		{Key: timeseries.MinPath(s.TimeField), Value: 1},
		{Key: timeseries.PathCount, Value: 1},
		{Key: timeseries.PathClosed, Value: 1},
		{Key: timeseries.PathCompaction, Value: 1},
	}, more...))
}

// read reads a bucket of any origin. Its values alias the document.
func (s *Selection) read(d bson.Raw) edited {
	b := edited{id: d.Lookup(timeseries.FieldID), meta: d.Lookup(timeseries.FieldMeta)}
	b.min = d.Lookup(timeseries.FieldControl, timeseries.FieldMin, s.TimeField)
	b.counted = d.Lookup(timeseries.FieldControl, timeseries.FieldCount)
	b.count, _ = b.counted.AsInt64OK()
	closed, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldClosed).BooleanOK()
	compaction, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldCompaction).DocumentOK()
	b.closed = closed && compaction.Lookup(timeseries.FieldCompactionID).Type == 0
	b.from, _ = compaction.Lookup(timeseries.FieldVisibleFrom).TimeOK()
	return b
}

func (b edited) series() string { return timeseries.Key(b.meta) }

// key returns the bucket's _id as a map key.
func (b edited) key() string { return timeseries.Key(b.id) }

func (b edited) amount() Amount { return Amount{Buckets: 1, Measurements: b.count} }

func (b edited) cloned() edited {
	b.id, b.meta, b.min, b.counted, b.listed = timeseries.Clone(b.id), timeseries.Clone(b.meta), timeseries.Clone(b.min), timeseries.Clone(b.counted), slices.Clone(b.listed)
	return b
}

// asRead returns the filter that finds the bucket by its _id and shard key while the edit may change it and it still has the count
// that was read. Every write that adds measurements increases the count.
func (s *Selection) asRead(b edited) bson.D {
	filter := append(timeseries.FullKey(b.id, b.meta, s.TimeField, b.min), timeseries.IsAsRead(timeseries.PathCount, b.counted))
	if s.Closed {
		return filter
	}
	return append(filter, s.open())
}

// bucketQuery returns the query for the buckets of the selection.
func (s *Selection) bucketQuery() bson.Raw {
	if !s.BucketsOnly {
		return s.Query
	}
	return mongodb.Document(bson.D{{Key: "$and", Value: bson.A{s.Query, s.notSegments()}}})
}

// notSegments returns the condition that a document is a bucket. It is empty if segments are included.
func (s *Selection) notSegments() bson.D {
	if !s.BucketsOnly {
		return nil
	}
	return bson.D{timeseries.IsAbsent(timeseries.PathOwner)}
}

// editable returns the query for the buckets that an edit may change.
func (s *Selection) editable() bson.Raw {
	if s.Closed {
		return s.bucketQuery()
	}
	return mongodb.Document(bson.D{{Key: "$and", Value: bson.A{s.bucketQuery(), bson.D{s.open()}}}})
}

// open returns the condition that a bucket is not closed or was made of segments.
func (s *Selection) open() bson.E {
	return bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: timeseries.PathClosed, Value: bson.D{{Key: "$ne", Value: true}}}},
		bson.D{timeseries.IsPresent(timeseries.PathCompactionID)},
	}}
}

// among returns the condition for buckets by their _id.
func among(buckets []edited) bson.E {
	ids := make(bson.A, len(buckets))
	for i, b := range buckets {
		ids[i] = b.id
	}
	return bson.E{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}
}

// Bounds of the scratch documents of one step.
const (
	maxTried      = 64
	maxTriedBytes = 1 << 20
	tryTimeout    = 30 * time.Second // of one step
)

// Tried is the result of an update on a meta.
type Tried struct {
	Meta bson.RawValue // Type 0 means none.
	// Err is why MongoDB does not apply the update to this meta.
	Err error
}

// Try lets MongoDB apply an update of buckets to metas if the query of the selection finds them, so that the server defines what
// operators do. It works on scratch documents and deletes them again. Documents of a call that is cut off stay, and do no harm.
// The results are in the order of the metas. Their metas are as the server made them, not normalised.
func (s *Selection) Try(ctx context.Context, update bson.Raw, metas []bson.RawValue, progress func(done int)) ([]Tried, error) {
	all := make([]Tried, 0, len(metas))
	for len(all) < len(metas) {
		rest := metas[len(all):]
		n := chunkOf(rest)
		tried, err := s.try(ctx, update, rest[:n])
		if err != nil {
			return nil, mongodb.Failure("trying the update on test documents", err)
		}
		all = append(all, tried...)
		progress(len(all))
	}
	return all, nil
}

// chunkOf returns how many of the metas go into scratch documents at a time.
func chunkOf(metas []bson.RawValue) int {
	bytes, n := 0, 0
	for n < len(metas) && n < maxTried && (n == 0 || bytes+len(metas[n].Value) <= maxTriedBytes) {
		bytes += len(metas[n].Value)
		n++
	}
	return n
}

// try is Try for some metas. Each scratch document has its meta in the field where buckets have theirs.
func (s *Selection) try(ctx context.Context, update bson.Raw, metas []bson.RawValue) ([]Tried, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	run := "probe-" + rand.Text()
	ids, index := make(bson.A, len(metas)), make(map[string]int, len(metas))
	documents, filters, updates := make([]bson.Raw, len(metas)), make([]bson.Raw, len(metas)), make([]mongodb.Update, len(metas))
	for i, meta := range metas {
		id := fmt.Sprintf("%s-%d", run, i)
		d := bson.D{{Key: timeseries.FieldID, Value: id}}
		updates[i] = mongodb.Update{Filter: mongodb.Document(append(d, bson.E{Key: "$and", Value: bson.A{s.Query}})), Update: update}
		if meta.Type != 0 {
			d = append(d, bson.E{Key: timeseries.FieldMeta, Value: meta})
		}
		ids[i], index[id], documents[i], filters[i] = id, i, mongodb.Document(d), mongodb.WithID(id)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer cancel()
		_, _ = s.options.Delete(ctx, filters)
	}()
	if _, err := mongodb.Executed(s.options.Insert(ctx, documents)); err != nil {
		return nil, err
	}
	reply, err := s.options.Update(ctx, updates)
	if err == nil {
		err = reply.Unconfirmed
	}
	if err != nil {
		return nil, err
	}
	tried, found := make([]Tried, len(metas)), 0
	every := bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}
	err = s.options.Find(ctx, mongodb.Query{Filter: mongodb.Document(every)}, func(d bson.Raw) error {
		id, _ := d.Lookup(timeseries.FieldID).StringValueOK()
		tried[index[id]].Meta = timeseries.Clone(d.Lookup(timeseries.FieldMeta))
		found++
		return nil
	})
	if err == nil && found != len(metas) {
		err = fmt.Errorf("only %d of %d test documents were found", found, len(metas))
	}
	for _, e := range reply.Errors {
		tried[e.Index].Err = e.Err()
	}
	return tried, err
}
