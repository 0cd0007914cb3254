package sink

import (
	"cmp"
	"context"
	"crypto/rand"
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
	timeout time.Duration // of a write
	ordering
}

// NewRollups makes the Rollups of a time series. The argument timeout bounds a write.
func NewRollups(name string, ports RollupPorts, timeout time.Duration) *Rollups {
	return &Rollups{name: name, ports: ports, timeout: timeout, ordering: ordering{begin: ports.Session}}
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

func (r *Rollups) find(ctx context.Context, operation string, c mongodb.Collection, q mongodb.Query, each func(bson.Raw) error) error {
	ctx, err := r.ordered(ctx)
	if err == nil {
		err = c.Find(ctx, q, each)
	}
	return mongodb.Failure(operation, err)
}

// write sends one write in the session, within the write timeout.
func (r *Rollups) write(ctx context.Context, send func(context.Context) (mongodb.Reply, error)) (mongodb.Reply, error) {
	return r.ordering.write(ctx, r.timeout, send)
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
	if state.Defined, err = r.Defined(ctx); err != nil {
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

// Defined reads which levels the time series has at the moment.
func (r *Rollups) Defined(ctx context.Context) (rollup.Definition, error) {
	return collection.ReadRollups(ctx, r.ports.Options)
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
// has had before, on all shards: with the fence the client sends the server the latest time of all answers, and gets a later one.
// The error is claim.ErrOtherOwner if the claim is gone.
func (r *Rollups) Fence(ctx context.Context, o *Owned) ([]rollup.Watermark, error) {
	const operation = "fencing a partition for its rollups"
	now := r.stamp()
	done, err := mongodb.Changed(r.write(ctx, func(ctx context.Context) (mongodb.Reply, error) {
		return r.ports.Partitions.Update(ctx, []mongodb.Update{{
			Filter: mongodb.Document(o.is()), Update: mongodb.Set(bson.D{{Key: fieldRolled, Value: now}}),
		}})
	}))
	if err != nil {
		return nil, mongodb.Failure(operation, err)
	}
	if !done {
		return nil, claim.ErrOtherOwner
	}
	var marks []rollup.Watermark
	err = r.find(ctx, operation, r.ports.Partitions, mongodb.Query{Filter: mongodb.WithID(o.ID), Limit: 1}, func(d bson.Raw) error {
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
	ports   collection.Ports
	timeout time.Duration
	notes   []RollupNote
}

// BeginRollupEdit writes the notes of an edit of series before the edit begins. The argument timeout bounds a write. The
// argument deletes means that the series are deleted, so their rows must be deleted as well. A nil result means that the time
// series has no rollups. If only the writing has failed, the result is not nil, and Note tries again.
func BeginRollupEdit(ctx context.Context, ports collection.Ports, timeout time.Duration, metas []bson.RawValue, deletes bool) (*RollupEdit, error) {
	have, err := collection.ReadRollups(ctx, ports.Options)
	if err != nil || len(have.Levels) == 0 || len(metas) == 0 {
		return nil, err
	}
	now, err := ports.Clock(ctx)
	if err != nil {
		return nil, err
	}
	e := &RollupEdit{ports: ports, timeout: timeout, notes: newRollupNotes(metas, deletes, now)}
	return e, e.Note(ctx)
}

// Note writes the notes. After an error it may be called again, and it writes no note twice. A second set of notes would not be
// marked by Done, so keepers would compute its rows every minute for days.
func (e *RollupEdit) Note(ctx context.Context) error {
	for i := range e.notes {
		if err := e.write(ctx, &e.notes[i]); err != nil {
			return err
		}
	}
	return nil
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
	values, err := array.Values()
	if !ok {
		err = errors.New("it is not an array")
	}
	if err != nil {
		return n, fmt.Errorf("the document with _id %q in the options collection is damaged: %s: %w; delete this document, and run `waterwheel rollup build --replace`", n.ID, fieldNoteMetas, err)
	}
	for _, v := range values {
		if of, ok := v.DocumentOK(); ok {
			n.Metas = append(n.Metas, timeseries.Clone(of.Lookup(fieldNoteMeta)))
		}
	}
	return n, nil
}

func (e *RollupEdit) write(ctx context.Context, n *RollupNote) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	_, err := mongodb.Changed(e.ports.Options.Insert(ctx, []bson.Raw{n.document()})) // False means that the note exists already.
	return mongodb.Failure("recording an edit for the rollups", err)
}

// Done marks the notes, once no write of the edit can be executed any more. shown is the moment from which queries see all edited
// buckets. If a note is gone because the edit took longer than notes are kept, Done writes it again.
func (e *RollupEdit) Done(ctx context.Context, shown time.Time) error {
	if e == nil {
		return nil
	}
	now, err := e.ports.Clock(ctx)
	if err != nil {
		return err
	}
	if shown.After(now) {
		now = shown
	}
	for i := range e.notes {
		n := &e.notes[i]
		n.Edited = now
		marked, err := e.mark(ctx, n)
		if err == nil && !marked {
			err = e.write(ctx, n)
		}
		if err != nil {
			return mongodb.Failure("recording the end of an edit", err)
		}
	}
	return nil
}

// mark notes the end of the edit in a note. False means that the note is gone.
func (e *RollupEdit) mark(ctx context.Context, n *RollupNote) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return mongodb.Changed(e.ports.Options.Update(ctx, []mongodb.Update{{
		Filter: mongodb.WithID(n.ID), Update: mongodb.Set(bson.D{{Key: fieldNoteEdited, Value: bson.NewDateTimeFromTime(n.Edited)}}),
	}}))
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
	return notes, cmp.Or(err, damaged)
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
