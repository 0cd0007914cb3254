package collection

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// maxBucketTries bounds how often a bucket is edited that gets measurements between reading and writing.
const maxBucketTries = 8

// Edited is the progress of an edit.
type Edited struct {
	// Done are the edited buckets, with the measurements that they had when they were last read.
	Done Amount `json:"done"`
	// Missed counts buckets that others closed, edited or deleted between reading and writing, or kept writing to. They are left
	// alone.
	Missed int64 `json:"missed"`
	// Appeared counts buckets of series that did not exist when the edit was planned. They are left alone.
	Appeared int64 `json:"appeared"`
	// Unsure counts buckets without an answer that tells whether they were edited.
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
func (e *editing) Edited() Edited { return e.edited }

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
func (e *editing) pass(ctx context.Context, doing string, wanted func(edited) bool) error {
	if _, err := e.account(ctx); err != nil { // those that an earlier pass sent and did not edit come again
		return mongodb.Failure(doing, err)
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
	return mongodb.Failure(doing, err)
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
		e.progress(e.edited)
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
	e.countUnsure()
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
	e.progress(e.edited)
	return nil, err
}

// note writes the notes of a batch before any edit of it is sent.
func (e *editing) note(ctx context.Context, open []edited) error {
	n := newNotes(e.kind)
	for _, b := range open {
		n.addListed(b.listed)
	}
	limited, cancel := context.WithTimeout(ctx, e.s.Timeout)
	defer cancel()
	return n.write(limited, e.s.options)
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
	e.countUnsure()
	return unedited, nil
}

func (e *editing) countUnsure() { e.edited.Unsure = int64(len(e.unsure)) }
