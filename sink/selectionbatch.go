package sink

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Edited is how far an edit is.
type Edited struct {
	// Done are buckets that were edited, with the measurements they had when they were read last.
	Done Amount `json:"done"`
	// Missed are buckets and segments that were closed, edited, settled or deleted by others between reading and writing, and left
	// alone.
	Missed int64 `json:"missed"`
	// Appeared are buckets of series that were not there when the edit was planned. They are left alone.
	Appeared int64 `json:"appeared"`
	// Unsure are buckets and segments of which no answer told whether they were edited.
	Unsure int64 `json:"unsure"`
}

// editing is one edit of a selection. It sends bounded batches, and keeps account of what each has done.
type editing struct {
	s        *Selection
	edited   Edited
	progress func(Edited)
	open     []edited // of the next batch
	bytes    int      // that they take
	most     int      // buckets in a batch
	unsure   []edited // sent, and not known to be edited
	segments *segmentEdits

	// send edits the buckets, and returns how many it found.
	send func(ctx context.Context, buckets []edited) (int64, error)
	// isDone tells whether a bucket was edited, by what it is now; nil: it is gone.
	isDone func(before edited, now *edited) bool
}

// Edited is how far it is.
func (e *editing) Edited() Edited { return e.edited }

// Settle finds out about the buckets that are Unsure, when Run is not called again. A write whose answer did not come may be
// executed later all the same.
func (e *editing) Settle(ctx context.Context) error {
	if err := e.segments.account(ctx); err != nil {
		return failure("reading segments back", err)
	}
	return failure("reading buckets back", e.account(ctx, false))
}

// pass reads the buckets that may be edited, once, and edits those that are wanted.
func (e *editing) pass(ctx context.Context, doing string, wanted func(edited) bool) error {
	if err := e.account(ctx, false); err != nil { // those that an earlier pass left and did not edit come again
		return failure(doing, err)
	}
	e.open, e.bytes = e.open[:0], 0
	query := Query{Filter: e.s.editable(), Projection: editedFields(), Batch: maxDeleted}
	err := e.s.buckets.Find(ctx, query, func(d bson.Raw) error {
		if b := e.s.read(d); wanted(b) {
			e.open = append(e.open, b.cloned())
			e.bytes += len(d)
		}
		if len(e.open) == e.most || e.bytes > maxEditedBytes {
			return e.flush(ctx)
		}
		return nil
	})
	if err == nil {
		err = e.flush(ctx)
	}
	if errors.Is(err, ErrKeptLonger) {
		return err
	}
	return failure(doing, err)
}

// flush edits the open buckets.
func (e *editing) flush(ctx context.Context) error {
	if len(e.open) == 0 {
		return nil
	}
	if e.s.due != nil {
		if err := e.s.due(ctx); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, e.s.timeout)
	defer cancel()
	n, err := e.send(limited, e.open)
	if err == nil && n == int64(len(e.open)) {
		for _, b := range e.open {
			e.edited.Done.Add(b.amount())
		}
	} else {
		e.unsure = append(e.unsure, e.open...)
		e.countUnsure()
	}
	e.open, e.bytes = e.open[:0], 0
	refused := (*CommandError)(nil)
	switch {
	case err == nil:
		err = e.account(ctx, true)
	case errors.As(err, &refused):
		_ = e.account(ctx, false) // some of them may have been edited; else they stay unsure
	default:
		e.most = max(minEdited, e.most/4)
	}
	e.progress(e.edited)
	return err
}

// account reads those buckets that are not known to be edited. With missed, those that were not count as missed.
func (e *editing) account(ctx context.Context, missed bool) error {
	if len(e.unsure) == 0 {
		return nil
	}
	now := make(map[string]*edited, len(e.unsure))
	query := Query{Filter: document(bson.D{among(e.unsure)}), Projection: editedFields()}
	err := e.s.buckets.Find(ctx, query, func(d bson.Raw) error {
		b := e.s.read(d).cloned()
		now[b.key()] = &b
		return nil
	})
	if err != nil {
		return err
	}
	for _, b := range e.unsure {
		if e.isDone(b, now[b.key()]) {
			e.edited.Done.Add(b.amount())
		} else if missed {
			e.edited.Missed++
		}
	}
	e.unsure = e.unsure[:0]
	e.countUnsure()
	return nil
}

func (e *editing) countUnsure() { e.edited.Unsure = int64(len(e.unsure) + len(e.segments.sent)) }

// executed is how many documents a write command found; an error unless all of that is durable.
func executed(reply Reply, err error) (int64, error) {
	switch {
	case err != nil:
		return 0, err
	case len(reply.Errors) > 0:
		return 0, &CommandError{Code: reply.Errors[0].Code, Message: reply.Errors[0].Message}
	}
	return int64(reply.N), reply.Unconfirmed
}
