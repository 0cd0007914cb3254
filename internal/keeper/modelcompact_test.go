package keeper

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Times of a compaction, as package pipeline and its settings have them.
const (
	insertMargin     = 15 * time.Second // by how much buckets are stored before queries see them
	segmentRetention = 10 * time.Minute // SEGMENT_RETENTION
)

// compact begins a compaction by the owner of a partition. First the owner recovers a compaction that was interrupted, and deletes
// segments that have ended.
func (w *world) compact(p *part) {
	if !p.claimed || p.compacting {
		return
	}
	p.compacting = true
	w.logf("a compaction")
	w.begin("compaction", func(ctx context.Context, _ *actor) {
		defer func() { p.compacting = false }()
		if w.recover(ctx, p) != nil {
			return
		}
		w.sweep(p)
		if w.step(ctx) != nil || !w.compactSome(ctx, p) {
			return
		}
		_ = w.recover(ctx, p)
	})
}

// compactSome compacts some segments. True means that the compaction must be recovered.
func (w *world) compactSome(ctx context.Context, p *part) (doubted bool) {
	id := w.token()
	frozen := w.change("control.segment.compaction", timeseries.UUID(id), w.segments(p, func(d bson.Raw) bool {
		return d.Lookup("control", "segment", "compaction").Type == 0 && w.rnd.IntN(3) > 0
	}))
	if len(frozen) == 0 || w.step(ctx) != nil {
		return false
	}
	from := w.now.Add(w.delay)
	w.visible[string(id[:])] = from
	buckets := w.compacted(frozen, bson.D{{Key: "id", Value: timeseries.UUID(id)}, {Key: "visibleFrom", Value: from}})
	for _, bucket := range buckets {
		if w.step(ctx) != nil {
			return false
		}
		w.put("buckets", bucket)
	}
	if w.step(ctx) != nil {
		return false
	}
	if !w.now.Add(insertMargin).Before(from) || w.rnd.IntN(8) == 0 { // too late, or an answer is missing
		return true
	}
	for i, some := range [][]string{frozen[:(len(frozen)+1)/2], frozen[(len(frozen)+1)/2:]} {
		if i > 0 && len(some) > 0 && w.rnd.IntN(3) == 0 {
			return true // the answer to the first command is missing
		}
		if w.rnd.IntN(2) == 0 && w.step(ctx) != nil {
			return false
		}
		w.change("control.segment.visibleUntil", from, some)
	}
	w.logf("compacted")
	return false
}

// segments returns the _ids of the segments of a partition that meet a condition.
func (w *world) segments(p *part, is func(d bson.Raw) bool) (ids []string) {
	documents := w.mem.now()["buckets"]
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		owner, _ := documents[id].Lookup("control", "segment", "owner").StringValueOK()
		if owner == p.id() && is(documents[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// change sets a field of documents, and returns their _ids. A document that has expired is left out.
func (w *world) change(path string, value any, ids []string) (changed []string) {
	update := encoded(bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: value}}}})
	w.mem.write("buckets", func(all map[string]bson.Raw) {
		for _, id := range ids {
			if all[id] != nil {
				all[id] = updated(all[id], update)
				changed = append(changed, id)
			}
		}
	})
	return changed
}

// compacted makes a bucket for each series of each segment.
func (w *world) compacted(segments []string, compaction bson.D) (buckets []bson.D) {
	for _, id := range segments {
		bySeries, from := map[string][]*entry{}, part{}
		w.stored(true, func(of string, m measurement) {
			if of == id {
				bySeries[m.series] = append(bySeries[m.series], m.record)
				from.number, from.topic = m.part, m.topic
			}
		})
		for _, series := range slices.Sorted(maps.Keys(bySeries)) {
			buckets = append(buckets, w.bucket(series, &from, bySeries[series], bson.D{
				{Key: "closed", Value: true}, {Key: "compaction", Value: compaction},
			}))
		}
	}
	return buckets
}

// recover finishes each compaction of a partition of which a segment has ended, and rolls back each of which none has.
func (w *world) recover(ctx context.Context, p *part) error {
	unfinished, ends := w.unfinished(p)
	for _, id := range slices.Sorted(maps.Keys(unfinished)) {
		if until := ends[id]; !until.IsZero() {
			w.change("control.segment.visibleUntil", until, unfinished[id])
			w.logf("a compaction ended later")
			continue
		}
		w.mem.write("buckets", func(all map[string]bson.Raw) {
			maps.DeleteFunc(all, func(_ string, d bson.Raw) bool { return compactionOf(d, "compaction", "id") == id })
		})
		w.logf("a compaction rolled back")
		if err := w.step(ctx); err != nil {
			return err
		}
		unset := encoded(bson.D{{Key: "$unset", Value: bson.D{{Key: "control.segment.compaction", Value: ""}}}})
		w.mem.write("buckets", func(all map[string]bson.Raw) {
			for _, segment := range unfinished[id] {
				if all[segment] != nil {
					all[segment] = updated(all[segment], unset)
				}
			}
		})
	}
	return nil
}

func compactionOf(d bson.Raw, path ...string) string {
	_, id, _ := d.Lookup(append([]string{"control"}, path...)...).BinaryOK()
	return string(id)
}

// unfinished returns the frozen segments of a partition that have not ended, by their compaction. ends has the end of each
// compaction of which some segments have ended.
func (w *world) unfinished(p *part) (frozen map[string][]string, ends map[string]time.Time) {
	frozen, ends = map[string][]string{}, map[string]time.Time{}
	documents := w.mem.now()["buckets"]
	for _, id := range w.segments(p, func(d bson.Raw) bool { return compactionOf(d, "segment", "compaction") != "" }) {
		compaction := compactionOf(documents[id], "segment", "compaction")
		if until, ended := documents[id].Lookup("control", "segment", "visibleUntil").TimeOK(); ended {
			ends[compaction] = until
		} else {
			frozen[compaction] = append(frozen[compaction], id)
		}
	}
	return frozen, ends
}

// sweep deletes segments that ended some time ago, if all segments of their compaction have ended.
func (w *world) sweep(p *part) {
	frozen, _ := w.unfinished(p)
	ended := w.segments(p, func(d bson.Raw) bool {
		until, ended := d.Lookup("control", "segment", "visibleUntil").TimeOK()
		return ended && w.now.Sub(until) > segmentRetention && frozen[compactionOf(d, "segment", "compaction")] == nil
	})
	w.mem.write("buckets", func(all map[string]bson.Raw) {
		for _, id := range ended {
			delete(all, id)
		}
	})
}
