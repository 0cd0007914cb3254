package keeper

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
	"waterwheel/sink"
)

// handDelete deletes a bucket by hand, without a note.
func (w *world) handDelete() {
	var ids []string
	of := map[string][]measurement{}
	w.stored(true, func(id string, m measurement) {
		if of[id] == nil {
			ids = append(ids, id)
		}
		of[id] = append(of[id], m)
	})
	if len(ids) == 0 || len(w.actors) > 0 && w.rnd.IntN(2) == 0 {
		return
	}
	id := ids[w.rnd.IntN(len(ids))]
	for _, m := range of[id] {
		w.handed[cell{m.series, rollup.FloorTo(m.record.time, hourMs)}] = true
		w.tear(m)
	}
	w.mem.write("buckets", func(all map[string]bson.Raw) { delete(all, id) })
	w.logf("a hand deletes")
}

// readNotes starts an actor that computes the rows of notes.
func (w *world) readNotes() {
	w.logf("notes computed")
	w.begin("notes", func(ctx context.Context, a *actor) {
		of, err := w.work(ctx)
		if err != nil {
			return
		}
		if a.notes, err = of.rollups.Notes(ctx); err != nil {
			return
		}
		for i := range a.notes {
			whole, _, err := of.note(ctx, &a.notes[i])
			if err != nil {
				w.unlessCrashed(err)
				return
			}
			if whole {
				w.whole[a.notes[i].ID] = true
			}
		}
	})
}

// command is update-meta or delete-meta of the series of a filter. It runs the code of the real commands.
type command struct {
	filter  []string
	into    []string // the new meta of each series of the filter. Nil means that the series are deleted.
	closed  bool     // --closed
	request *sink.CompactionRequest
}

// editSeries begins a command, or continues the command that waits for a compaction. A command waits for the segments of its
// beginning only. So its edit may meet newer segments, and buckets that are not shown yet.
func (w *world) editSeries() {
	if w.command == nil {
		w.command = w.newCommand()
	}
	left, err := w.command.request.Left(context.Background())
	if err != nil {
		w.fail("a command cannot read segments: %v", err)
	}
	if left > 0 {
		w.logf("a command waits")
		for _, p := range w.parts {
			w.compact(p)
		}
		if w.rnd.IntN(6) == 0 { // no consumer compacts
			w.command = nil
		}
		w.now = w.now.Add(time.Duration(w.rnd.Int64N(int64(w.delay))))
		w.expire()
		return
	}
	c := w.command
	w.command = nil
	if p := w.part(); w.rnd.IntN(4) > 0 { // measurements came after the first look, and their compaction has begun
		w.produce(p)
		w.store(p)
		w.store(p)
		w.compact(p)
		for range w.rnd.IntN(8) {
			if last := w.actors; p.compacting && last[len(last)-1].name == "compaction" {
				w.go1(last[len(last)-1], false)
			}
		}
	}
	w.begin("command", func(ctx context.Context, a *actor) { w.runCommand(ctx, a, c) })
}

func (w *world) newCommand() *command {
	filter := slices.Clone(modelSeries)
	w.rnd.Shuffle(len(filter), func(i, j int) { filter[i], filter[j] = filter[j], filter[i] })
	c := &command{
		filter: filter[:1+w.rnd.IntN(len(filter))], closed: w.rnd.IntN(2) == 0,
		request: sink.NewContents(baseName, w.ports(), time.Hour).RequestCompaction(),
	}
	switch w.rnd.IntN(4) {
	case 0: // delete-meta
	case 1: // each series becomes another one
		c.into = append(slices.Clone(c.filter[1:]), filter[w.rnd.IntN(len(filter))])
	default: // all series become one
		one := modelSeries[w.rnd.IntN(len(modelSeries))]
		for range c.filter {
			c.into = append(c.into, one)
		}
	}
	return c
}

// seriesEdit is a collection.Change or a collection.Deletion.
type seriesEdit interface {
	Run(ctx context.Context) error
	Edited() collection.Edited
}

// runCommand runs a command after its wait. The order is that of planDeletion and deleteSeries, or planUpdate and updateMetas, in
// package cli.
func (w *world) runCommand(ctx context.Context, a *actor, c *command) {
	metas := bson.A{}
	for _, one := range c.filter {
		metas = append(metas, one)
	}
	selection := collection.NewSelection(memoryCollection{w.mem, "buckets"}, memoryCollection{w.mem, "options"}, collection.SelectionOptions{
		Query:     encoded(bson.D{{Key: "meta", Value: bson.D{{Key: "$in", Value: metas}}}}),
		TimeField: "time", Closed: c.closed, BucketsOnly: true, Timeout: time.Hour,
	})
	all, err := selection.Series(ctx, func(int64) {})
	if err != nil {
		return
	}
	edit, noted := c.plan(selection, all)
	for range w.rnd.IntN(12) { // a person reads the plan, and confirms it
		if w.step(ctx) != nil {
			return
		}
	}
	var rollups *sink.RollupEdit
	if !through(func() (err error) {
		if rollups != nil {
			return rollups.Note(ctx)
		}
		rollups, err = sink.BeginRollupEdit(ctx, w.ports(), time.Hour, noted, c.into == nil)
		return err
	}) {
		return
	}
	for _, meta := range noted {
		a.edits = append(a.edits, meta.StringValue())
	}
	if !through(func() error { return edit.Run(ctx) }) {
		return
	}
	edited := edit.Edited()
	if !through(func() error { return rollups.Done(ctx, edited.Shown) }) {
		return
	}
	switch {
	case edited.Shown.After(w.now):
		w.logf("hidden buckets edited")
	case edited.Done.Buckets > 0 && c.into == nil:
		w.logf("series deleted")
	case edited.Done.Buckets > 0:
		w.logf("metas change")
	}
	if edited.Appeared > 0 {
		w.logf("series appeared")
	}
}

// plan returns the edit of a command, and the metas that it notes.
func (c *command) plan(s *collection.Selection, all []collection.SelectedSeries) (edit seriesEdit, noted []bson.RawValue) {
	var changes []collection.MetaChange
	for _, one := range all {
		if one.Open.IsZero() && (!c.closed || one.Closed.IsZero()) {
			continue
		}
		if c.into == nil {
			noted = append(noted, one.Meta)
			continue
		}
		into := c.into[slices.Index(c.filter, one.Meta.StringValue())]
		if into == one.Meta.StringValue() {
			continue
		}
		change := collection.MetaChange{Before: one.Meta, After: encoded(bson.D{{Key: "m", Value: into}}).Lookup("m")}
		changes = append(changes, change)
		noted = append(noted, change.Before, change.After)
	}
	if c.into == nil {
		return s.DeleteSeries(noted, func(collection.Edited) {}), noted
	}
	return s.Change(all, changes, func(collection.Edited) {}), noted
}

// through tries a step of a command again after outages. False means that the command has failed, or that its process has ended.
func through(try func() error) bool {
	for range 12 {
		err := try()
		if err == nil {
			return true
		}
		if _, ok := errors.AsType[*mongodb.OutageError](err); !ok || errors.Is(err, errCrash) {
			return false
		}
	}
	return false
}

// isDeleted reports whether delete-meta has noted the position.
func (w *world) isDeleted(p *part, offset int64) bool {
	for _, raw := range w.mem.now()["options"] {
		id, _ := raw.Lookup("_id").StringValueOK()
		if !strings.HasPrefix(id, string(collection.NotedDeleted)) || timeseries.UUIDIn(raw.Lookup("control", "source").Document(), "topicId") != p.topic {
			continue
		}
		_, encoded := raw.Lookup("control", "source", "offsets", "0").Binary()
		positions, err := timeseries.DecodePositions(nil, encoded)
		if err != nil {
			panic(err)
		}
		if slices.ContainsFunc(positions, func(at timeseries.Position) bool { return at.Offset == offset }) {
			return true
		}
	}
	return false
}
