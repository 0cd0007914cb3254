package sink

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// A rollup note is a document of the options collection. It asks for work on the rollups of whole series that no position
// shows. A command that edits series writes the notes before its first edit, and marks them when the edit is over. A keeper
// computes the rows of these series again. It then deletes the note, if before the computation the note was already marked, or
// older than any command runs. So the rows become right wherever the command or the keeper stops.

// RollupNote is a stored note.
type RollupNote struct {
	ID string
	// Metas are the series whose rows must be computed again. Type 0 means the series without a meta.
	Metas []bson.RawValue
	// Deletes means that rows are deleted with their measurements, even those of hours that are not computed again.
	Deletes bool
	// Edited is MongoDB's time at which the edit was over, and queries saw all of it. Zero means that it may go on.
	Edited time.Time
	// At is MongoDB's time at which the note was written.
	At time.Time
}

// rollupNotes begins the _id of every note.
const rollupNotes = "rollup/"

// Fields of a note.
const (
	fieldNoteMetas   = "metas"
	fieldNoteDeletes = "deletes"
	fieldNoteEdited  = "edited"
	fieldNoteAt      = "at"
	fieldNoteMeta    = "meta" // of an element of metas
)

// maxNoteBytes bounds the metas of one note.
const maxNoteBytes = 1 << 20

// RollupEdit is an edit of whole series that the rollups of the time series must follow.
type RollupEdit struct {
	options mongodb.Collection
	clock   func(context.Context) (time.Time, error)
	timeout time.Duration
	notes   []RollupNote
}

// BeginRollupEdit writes the notes of an edit of series before the edit begins. The argument timeout bounds a write. The
// argument deletes means that the series are deleted, so their rows must be deleted as well. A nil result means that the time
// series has no rollups.
func BeginRollupEdit(ctx context.Context, ports collection.Ports, timeout time.Duration, metas []bson.RawValue, deletes bool) (*RollupEdit, error) {
	have, err := collection.ReadRollups(ctx, ports.Options)
	if err != nil || len(have.Levels) == 0 || len(metas) == 0 {
		return nil, err
	}
	now, err := ports.Clock(ctx)
	if err != nil {
		return nil, err
	}
	e := &RollupEdit{options: ports.Options, clock: ports.Clock, timeout: timeout, notes: newRollupNotes(metas, deletes, now)}
	return e, e.write(ctx, e.notes)
}

// newRollupNotes makes the notes of series, with at most maxNoteBytes of metas in each.
func newRollupNotes(metas []bson.RawValue, deletes bool, now time.Time) (notes []RollupNote) {
	bytes := 0
	for _, meta := range metas {
		if bytes += len(meta.Value); len(notes) == 0 || bytes > maxNoteBytes {
			var id [16]byte
			_, _ = rand.Read(id[:]) // never fails
			notes = append(notes, RollupNote{ID: fmt.Sprintf("%s%x", rollupNotes, id), Deletes: deletes, At: now})
			bytes = len(meta.Value)
		}
		last := &notes[len(notes)-1]
		last.Metas = append(last.Metas, meta)
	}
	return notes
}

func (n *RollupNote) document() bson.Raw {
	metas := bson.A{}
	for _, meta := range n.Metas {
		of := bson.D{}
		if meta.Type != 0 {
			of = bson.D{{Key: fieldNoteMeta, Value: meta}}
		}
		metas = append(metas, of)
	}
	d := bson.D{
		{Key: "_id", Value: n.ID},
		{Key: fieldNoteMetas, Value: metas},
		{Key: fieldNoteDeletes, Value: n.Deletes},
		{Key: fieldNoteAt, Value: bson.NewDateTimeFromTime(n.At)},
	}
	if !n.Edited.IsZero() {
		d = append(d, bson.E{Key: fieldNoteEdited, Value: bson.NewDateTimeFromTime(n.Edited)})
	}
	return mongodb.Document(d)
}

func parseRollupNote(raw bson.Raw) (n RollupNote, err error) {
	n.ID, _ = raw.Lookup("_id").StringValueOK()
	n.Deletes, _ = raw.Lookup(fieldNoteDeletes).BooleanOK()
	n.Edited, _ = raw.Lookup(fieldNoteEdited).TimeOK()
	n.At, _ = raw.Lookup(fieldNoteAt).TimeOK()
	array, ok := raw.Lookup(fieldNoteMetas).ArrayOK()
	if !ok {
		return n, fmt.Errorf("the document with _id %q in the options collection is damaged: %s is not an array; delete this document, and run `waterwheel rollup build --replace`", n.ID, fieldNoteMetas)
	}
	values, err := array.Values()
	if err != nil {
		return n, fmt.Errorf("the document with _id %q in the options collection is damaged: %w; delete this document, and run `waterwheel rollup build --replace`", n.ID, err)
	}
	for _, v := range values {
		if of, ok := v.DocumentOK(); ok {
			n.Metas = append(n.Metas, timeseries.Clone(of.Lookup(fieldNoteMeta)))
		}
	}
	return n, nil
}

func (e *RollupEdit) write(ctx context.Context, notes []RollupNote) error {
	const doing = "recording an edit for the rollups"
	for i := range notes {
		limited, cancel := context.WithTimeout(ctx, e.timeout)
		_, err := mongodb.Changed(e.options.Insert(limited, []bson.Raw{notes[i].document()})) // False means that the note exists already.
		cancel()
		if err != nil {
			return mongodb.Failure(doing, err)
		}
	}
	return nil
}

// Done marks the notes, once no write of the edit can be executed any more. shown is the moment from which queries see all edited
// buckets. If a note is gone because the edit took longer than notes are kept, Done writes it again.
func (e *RollupEdit) Done(ctx context.Context, shown time.Time) error {
	if e == nil {
		return nil
	}
	now, err := e.clock(ctx)
	if err != nil {
		return err
	}
	if shown.After(now) {
		now = shown
	}
	for i := range e.notes {
		n := &e.notes[i]
		n.Edited = now
		limited, cancel := context.WithTimeout(ctx, e.timeout)
		marked, err := mongodb.Changed(e.options.Update(limited, []mongodb.Update{{Filter: mongodb.WithID(n.ID), Update: mongodb.Set(bson.D{{Key: fieldNoteEdited, Value: bson.NewDateTimeFromTime(now)}})}}))
		cancel()
		if err == nil && !marked {
			err = e.write(ctx, e.notes[i:i+1])
		}
		if err != nil {
			return mongodb.Failure("recording the end of an edit", err)
		}
	}
	return nil
}

// Notes returns the notes of the time series, from the oldest to the newest.
func (r *Rollups) Notes(ctx context.Context) (notes []RollupNote, err error) {
	const behind = "rollup0" // sorts after every _id that begins with rollup/
	var damaged error
	query := mongodb.Query{Filter: mongodb.Document(bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: rollupNotes}, {Key: "$lt", Value: behind}}}})}
	err = r.find(ctx, "reading the notes of edits", r.ports.Options, query, func(d bson.Raw) error {
		n, bad := parseRollupNote(d)
		if damaged = cmp.Or(damaged, bad); bad == nil {
			notes = append(notes, n)
		}
		return nil
	})
	slices.SortFunc(notes, func(a, b RollupNote) int { return a.At.Compare(b.At) })
	if err == nil {
		err = damaged
	}
	return notes, err
}

// NoteDone deletes a note after its rows were computed.
func (r *Rollups) NoteDone(ctx context.Context, n *RollupNote) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	filter := bson.D{{Key: "_id", Value: n.ID}}
	if n.Edited.IsZero() {
		filter = append(filter, timeseries.IsAbsent(fieldNoteEdited)) // without this condition a note would be lost whose edit went on after all
	}
	_, err := mongodb.Executed(r.ports.Options.Delete(ctx, []bson.Raw{mongodb.Document(filter)}))
	return mongodb.Failure("deleting the note of an edit after its rollup rows were computed", err)
}

// Extents calls each for every bucket of a series, and for every document of its levels with rows of it. The arguments are the
// first and the last time, in milliseconds. The level is empty for buckets.
func (r *Rollups) Extents(ctx context.Context, o timeseries.Options, levels rollup.Levels, meta bson.RawValue, each func(level string, first, last int64)) error {
	query := mongodb.Query{
		Filter:     mongodb.Document(bson.D{timeseries.HasMeta(meta)}),
		Projection: mongodb.Document(bson.D{{Key: timeseries.MinPath(o.TimeField), Value: 1}, {Key: timeseries.MaxPath(o.TimeField), Value: 1}}),
	}
	names := []string{""}
	for _, l := range levels {
		names = append(names, l.Name)
	}
	for _, name := range names {
		c := r.ports.Levels[name]
		if name == "" {
			c = r.ports.Buckets
		}
		err := r.find(ctx, "reading the first and the last time of a series", c, query, func(d bson.Raw) error {
			first, one := d.Lookup(timeseries.FieldControl, timeseries.FieldMin, o.TimeField).DateTimeOK()
			last, other := d.Lookup(timeseries.FieldControl, timeseries.FieldMax, o.TimeField).DateTimeOK()
			if one && other {
				each(name, first, last)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
