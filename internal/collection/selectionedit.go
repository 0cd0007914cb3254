package collection

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// MetaChange is the meta of a series before and after a change.
type MetaChange struct{ Before, After bson.RawValue } // Type 0 means none.

// Change gives the buckets of series other metas, each bucket once. At any time a bucket has one of the two metas. Its other
// fields stay as they are.
type Change struct {
	editing
	after map[string]target // by the meta before
	// moved holds the former series of each moved bucket. It is used if a bucket may move to a series that also changes.
	moved map[string]string
}

// target is the new meta of a series. If set is false, the series stays as it is.
type target struct {
	meta bson.RawValue
	set  bool
}

// Change makes the Change of a selection. all are all its series, as Series lists them. changes are those that change.
func (s *Selection) Change(all []SelectedSeries, changes []MetaChange, progress func(Edited)) *Change {
	c := &Change{editing: editing{s: s, progress: progress, most: maxChanged, kind: NotedChanged}, after: make(map[string]target, len(all)+len(changes))}
	c.send, c.isDone = c.update, c.isMoved
	for _, one := range all {
		c.after[timeseries.Key(one.Meta)] = target{}
	}
	for _, one := range changes {
		c.after[timeseries.Key(one.Before)] = target{one.After, true}
	}
	for _, one := range changes {
		into, known := c.after[timeseries.Key(one.After)]
		switch {
		case !known:
			c.after[timeseries.Key(one.After)] = target{}
		case into.set && c.moved == nil:
			c.moved = map[string]string{}
		}
	}
	return c
}

// Run changes the buckets that were not changed yet. After an *OutageError it may be called again. It changes no bucket twice.
func (c *Change) Run(ctx context.Context) error {
	c.edited.Appeared = 0
	return c.pass(ctx, "changing metas", c.isWanted)
}

func (c *Change) isWanted(b edited) bool {
	series := b.series()
	to, known := c.after[series]
	if !known {
		c.edited.Appeared++
		return false
	}
	if from, moved := c.moved[b.key()]; moved && from != series {
		return false // the bucket was moved before
	}
	return to.set
}

// update sends one update for each bucket, on the condition that the bucket still has its meta and its measurements.
func (c *Change) update(ctx context.Context, buckets []edited) (int64, error) {
	updates := make([]mongodb.Update, len(buckets))
	for i, b := range buckets {
		filter := c.s.asRead(b)
		// mongos takes a change of the shard key only with a filter that gives each field of the key a value.
		if b.meta.Type == 0 {
			filter[1].Value = bson.D{{Key: "$eq", Value: nil}, {Key: "$exists", Value: false}}
		}
		updates[i] = mongodb.Update{Filter: mongodb.Document(filter), Update: setsMeta(c.after[b.series()].meta)}
		if c.moved != nil {
			c.moved[b.key()] = b.series()
		}
	}
	return mongodb.Executed(c.s.Move(ctx, updates))
}

func (c *Change) isMoved(before edited, now *edited) bool {
	return now != nil && now.series() == timeseries.Key(c.after[before.series()].meta)
}

// setsMeta returns the update that gives a bucket a meta, or removes it.
func setsMeta(meta bson.RawValue) bson.Raw {
	if meta.Type == 0 {
		return mongodb.Document(bson.D{{Key: "$unset", Value: bson.D{{Key: timeseries.FieldMeta, Value: ""}}}})
	}
	return mongodb.Set(bson.D{{Key: timeseries.FieldMeta, Value: meta}})
}

// Deletion deletes the buckets of a selection.
type Deletion struct {
	editing
	series map[string]bool // the series that are deleted. Nil means all.
}

// DeleteSeries makes the Deletion of some series of a selection. Series that the selection finds later, and for which no rollup
// note was written, are left alone.
func (s *Selection) DeleteSeries(metas []bson.RawValue, progress func(Edited)) *Deletion {
	d := s.Delete(progress)
	d.series = make(map[string]bool, len(metas))
	for _, meta := range metas {
		d.series[timeseries.Key(meta)] = true
	}
	return d
}

// Delete makes the Deletion of a selection.
func (s *Selection) Delete(progress func(Edited)) *Deletion {
	d := &Deletion{editing: editing{s: s, progress: progress, most: maxDeleted, kind: NotedDeleted}}
	if s.unnoted {
		d.kind = ""
	}
	d.send, d.isDone = d.delete, func(_ edited, now *edited) bool { return now == nil }
	return d
}

// Run deletes the buckets. After an *OutageError it may be called again.
func (d *Deletion) Run(ctx context.Context) error {
	d.edited.Appeared = 0
	return d.pass(ctx, "deleting buckets", d.isWanted)
}

func (d *Deletion) isWanted(b edited) bool {
	if d.series == nil || d.series[b.series()] {
		return true
	}
	d.edited.Appeared++
	return false
}

// delete deletes each bucket that still has the measurements that were read. Then the selection still includes it.
func (d *Deletion) delete(ctx context.Context, buckets []edited) (int64, error) {
	filters := make([]bson.Raw, len(buckets))
	for i, b := range buckets {
		filters[i] = mongodb.Document(d.s.asRead(b))
	}
	return mongodb.Executed(d.s.buckets.Delete(ctx, filters))
}

// maxBucketTries bounds how often a bucket is edited that gets measurements between reading and writing.
const maxBucketTries = 8

// Edited is the progress of an edit.
type Edited struct {
	// Done are the edited buckets, with the measurements that they had when they were last read.
	Done Amount `json:"done"`
	// Missed counts buckets that others closed, edited or deleted between reading and writing, or kept writing to. They are left
	// alone.
	Missed int64 `json:"missed"`
	// Appeared counts buckets of series that had none to edit when the edit was planned. They are left alone.
	Appeared int64 `json:"appeared"`
	// Unsure counts buckets of which it is unknown whether they were edited.
	Unsure int64 `json:"unsure"`
	// Shown is the moment from which queries see all edited buckets. Before it they see the measurements of some in segments, which
	// are not edited. Zero means that they see all buckets at once.
	Shown time.Time `json:"-"`
}

// editing is one edit of a selection. It sends bounded batches and counts what each has done.
type editing struct {
	s        *Selection
	edited   Edited
	progress func(Edited)
	open     []edited // buckets of the next batch
	bytes    int      // size of these buckets in bytes
	most     int      // buckets in a batch
	unsure   []edited // buckets that were sent and are not known to be edited
	kind     NoteKind // of the notes that are written before an edit is sent

	// send edits the buckets that still have the measurements that were read. It returns how many it found.
	send func(ctx context.Context, buckets []edited) (int64, error)
	// isDone reports whether a bucket was edited, by its present state. Nil means that it is gone.
	isDone func(before edited, now *edited) bool
}

// Edited returns the progress.
func (e *editing) Edited() Edited {
	e.edited.Unsure = int64(len(e.unsure))
	return e.edited
}

// Resolve finds out about the Unsure buckets when Run is not called again. A write without an answer may still be executed later.
func (e *editing) Resolve(ctx context.Context) error {
	_, err := e.account(ctx)
	return mongodb.Failure("reading buckets back", err)
}

// fields returns the projection of the fields that an edit reads of a bucket.
func (e *editing) fields() bson.Raw {
	if e.kind == "" {
		return e.s.fields()
	}
	return e.s.fields(bson.E{Key: timeseries.PathSource, Value: 1})
}

// read reads a bucket, with its document if notes are needed.
func (e *editing) read(d bson.Raw) edited {
	b := e.s.read(d)
	if e.kind != "" {
		b.listed = d
	}
	return b
}

// pass reads the buckets that may be edited once, and edits the wanted ones.
func (e *editing) pass(ctx context.Context, operation string, wanted func(edited) bool) error {
	if _, err := e.account(ctx); err != nil { // those that an earlier pass sent and did not edit come again
		return mongodb.Failure(operation, err)
	}
	e.open, e.bytes = e.open[:0], 0
	query := mongodb.Query{Filter: e.s.editable(), Projection: e.fields(), Batch: maxDeleted}
	err := e.s.buckets.Find(ctx, query, func(d bson.Raw) error {
		if b := e.read(d); wanted(b) {
			e.open = append(e.open, b.cloned())
			e.bytes += len(d)
		}
		if e.isFull() {
			return e.flushAll(ctx)
		}
		return nil
	})
	if err == nil {
		err = e.flushAll(ctx)
	}
	if errors.Is(err, ErrKeptLonger) {
		return err
	}
	return mongodb.Failure(operation, err)
}

// flush edits the open buckets. It edits buckets that got measurements meanwhile again, in their present state.
func (e *editing) flush(ctx context.Context) error {
	for try := 1; len(e.open) > 0; try++ {
		if e.s.due != nil {
			if err := e.s.due(ctx); err != nil {
				return err
			}
		}
		grown, err := e.batch(ctx)
		if err != nil {
			return err
		}
		if try == maxBucketTries {
			e.edited.Missed += int64(len(grown))
			grown = nil
		}
		e.open = grown
		e.progress(e.Edited())
	}
	e.bytes = 0
	return nil
}

// batch notes and edits the open buckets. It returns those that got measurements between reading and writing.
func (e *editing) batch(ctx context.Context) (grown []edited, err error) {
	open := e.open
	e.open = nil
	for _, b := range open {
		if b.from.After(e.edited.Shown) && b.from.Before(timeseries.Never.Time()) {
			e.edited.Shown = b.from
		}
	}
	if err := e.note(ctx, open); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, e.s.Timeout)
	defer cancel()
	n, err := e.send(limited, open)
	if err == nil && n == int64(len(open)) {
		for _, b := range open {
			e.edited.Done.Add(b.amount())
		}
		return nil, nil
	}
	e.unsure = append(e.unsure, open...)
	if err == nil {
		var left []left
		if left, err = e.account(ctx); err == nil {
			return e.retried(left), nil
		}
		return nil, err
	}
	if _, ok := errors.AsType[*mongodb.CommandError](err); ok {
		_, _ = e.account(ctx) // some of them may have been edited; the others stay unsure
	} else {
		e.most = max(minEdited, e.most/4)
	}
	e.progress(e.Edited())
	return nil, err
}

// left is a bucket that was not edited, with its present state. Nil means that it is gone.
type left struct {
	before edited
	now    *edited
}

// retried returns the buckets that only got more measurements meanwhile. The others count as missed.
func (e *editing) retried(all []left) (grown []edited) {
	for _, one := range all {
		if one.now != nil && one.now.count > one.before.count && one.now.series() == one.before.series() && (e.s.Closed || !one.now.closed) {
			grown = append(grown, *one.now)
		} else {
			e.edited.Missed++
		}
	}
	return grown
}

// account reads the unsure buckets and returns those that were not edited.
func (e *editing) account(ctx context.Context) (unedited []left, err error) {
	if len(e.unsure) == 0 {
		return nil, nil
	}
	now := make(map[string]*edited, len(e.unsure))
	query := mongodb.Query{Filter: mongodb.Document(bson.D{among(e.unsure)}), Projection: e.fields()}
	err = e.s.buckets.Find(ctx, query, func(d bson.Raw) error {
		b := e.read(d).cloned()
		now[b.key()] = &b
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, b := range e.unsure {
		if e.isDone(b, now[b.key()]) {
			e.edited.Done.Add(b.amount())
		} else {
			unedited = append(unedited, left{b, now[b.key()]})
		}
	}
	e.unsure = e.unsure[:0]
	return unedited, nil
}

// An _id is unique only within a shard. A consumer sends an insert without an answer again. If the first sending is executed late,
// the second one has stored the bucket already, and MongoDB refuses the first one. But it does not refuse it if the bucket lies on
// another shard by then. So an edit that changes shard keys waits before it moves a bucket that it has read.

const (
	// maxAwaited and maxAwaitedBytes bound the buckets that are read before one wait.
	maxAwaited      = 50_000
	maxAwaitedBytes = 64 << 20
)

// awaitInserts implements SelectionOptions.AwaitInserts. It waits as long as another owner of the partitions would wait.
func (t TimeSeries) awaitInserts(ctx context.Context) error {
	var claims []claim.Document
	err := t.Ports().Partitions.Find(ctx, mongodb.Query{Filter: mongodb.Document(bson.D{})}, func(d bson.Raw) error {
		claims = append(claims, claim.Decode(d))
		return nil
	})
	if err != nil {
		return mongodb.Failure("reading how long consumers may still write", err)
	}
	longest := claim.Pending(claim.WriteGrace(t.db.WriteTimeout()), claims)
	t.log().Info("waiting until MongoDB can no longer execute pending inserts of consumers", "for", longest)
	return sleep(ctx, longest)
}

// awaits reports whether the edit waits before it edits the buckets that it has read.
func (e *editing) awaits() bool { return e.s.AwaitInserts != nil && e.kind == NotedChanged }

// isFull reports whether the open buckets must be edited before more are read.
func (e *editing) isFull() bool {
	if e.awaits() {
		return len(e.open) >= maxAwaited || e.bytes > maxAwaitedBytes
	}
	return len(e.open) >= e.most || e.bytes > maxEditedBytes
}

// flushAll edits the open buckets, after a wait if one is needed, in batches of the present size.
func (e *editing) flushAll(ctx context.Context) error {
	if !e.awaits() || len(e.open) == 0 {
		return e.flush(ctx)
	}
	if err := e.s.AwaitInserts(ctx); err != nil {
		return err
	}
	for all := e.open; len(all) > 0; {
		n := min(e.most, len(all))
		e.open, all = all[:n:n], all[n:]
		if err := e.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}
