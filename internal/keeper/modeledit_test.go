package keeper

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
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
		for _, series := range modelSeries { // After an edit of metas the rows of both series stay.
			w.handed[cell{series, rollup.FloorTo(m.record.time, hourMs)}] = true
		}
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
			if _, _, err := of.note(ctx, &a.notes[i]); err != nil {
				w.unlessCrashed(err)
				return
			}
		}
	})
}

// documentsOf returns the _ids of the documents of a series, without segments.
func (w *world) documentsOf(series string) (ids []string) {
	for id, d := range w.mem.now()["buckets"] {
		if meta, _ := d.Lookup("meta").StringValueOK(); meta == series && d.Lookup("control", "segment").Type == 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// isCompacted reports whether no segment is left. The commands wait for this.
func (w *world) isCompacted() bool {
	for _, d := range w.mem.now()["buckets"] {
		if d.Lookup("control", "segment").Type != 0 {
			return false
		}
	}
	return true
}

// edit starts a command that changes whole series.
func (w *world) edit(what string, series []string, deletes bool, do func(id string)) {
	if !w.isCompacted() {
		return
	}
	var metas []bson.RawValue
	for _, one := range series {
		metas = append(metas, encoded(bson.D{{Key: "m", Value: one}}).Lookup("m"))
	}
	w.logf("%s", what)
	w.begin(what, func(ctx context.Context, a *actor) {
		noted, err := sink.BeginRollupEdit(ctx, w.ports(), time.Second, metas, deletes)
		if err != nil {
			return
		}
		for _, id := range w.documentsOf(series[0]) {
			for _, one := range series {
				a.editing[one] = true
			}
			for range 4 { // other actors may read the note in between
				if w.step(ctx) != nil {
					return
				}
			}
			do(id)
		}
		if noted.Done(ctx, time.Time{}) == nil {
			clear(a.editing)
		}
	})
}

func (w *world) updateMeta() {
	from, to := modelSeries[w.rnd.IntN(3)], modelSeries[w.rnd.IntN(3)]
	if from == to {
		return
	}
	w.edit("metas change", []string{from, to}, false, func(id string) {
		w.mem.write("buckets", func(all map[string]bson.Raw) {
			if all[id] != nil {
				all[id] = updated(all[id], encoded(bson.D{{Key: "$set", Value: bson.D{{Key: "meta", Value: to}}}}))
			}
		})
	})
}

func (w *world) deleteMeta() {
	w.edit("series deleted", []string{modelSeries[w.rnd.IntN(3)]}, true, func(id string) {
		w.stored(true, func(of string, m measurement) {
			if of == id {
				w.put("deleted", bson.D{{Key: "_id", Value: string(m.topic[:]) + string(rune(m.record.offset))}})
			}
		})
		w.mem.write("buckets", func(all map[string]bson.Raw) { delete(all, id) })
	})
}
