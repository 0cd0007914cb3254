package verify

import (
	"context"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// maxDoubles is how many doubled positions are examined together. Each takes some hundred bytes.
const maxDoubles = 1 << 16

// copies describes the copies of one doubled measurement.
type copies struct {
	count int
	// keep is the smallest idOf of the documents that list it. The copy in that document stays.
	keep string
	// kept means that the copy that stays was found again, after all copies had been counted.
	kept bool
	// sum is the fingerprint of the copy that stays.
	sum fingerprint
	// damaged means that a bucket that lists it contradicts itself, so it is unknown which values belong to the measurement.
	damaged bool
	// removed is how many copies were removed, or would be removed by a repair.
	removed int
}

// judgeDoubles verifies positions that seem to be doubled, and removes copies if a repair is requested.
func (w *window) judgeDoubles(ctx context.Context, doubled *set) error {
	var err error
	some := make(map[timeseries.Position]*copies)
	judge := func() {
		if err == nil && len(some) > 0 {
			err = w.judgeSome(ctx, some)
		}
		clear(some)
	}
	doubled.each(func(p timeseries.Position) {
		if some[p] = new(copies); len(some) == maxDoubles {
			judge()
		}
	})
	judge()
	return err
}

// judgeSome counts the copies of some positions. Before a repair it then finds the copies that stay. It repeats both until it has
// found all, because a compaction may move a copy meanwhile.
func (w *window) judgeSome(ctx context.Context, some map[timeseries.Position]*copies) error {
	var counted map[string]bool
	for range recounts {
		var err error
		if counted, err = w.countCopies(ctx, some); err != nil {
			return err
		}
		if w.Repair == Leave || len(some) == 0 {
			break
		}
		if all, err := w.findKept(ctx, some); all || err != nil {
			if err != nil {
				return err
			}
			break
		}
	}
	for p := range some {
		w.doubled.add(p)
		w.found.Doubled.add(p, w.Examples)
	}
	if w.Repair == Leave || len(some) == 0 {
		return nil
	}
	return w.repair(ctx, some, counted)
}

// countCopies counts the copies again until the result is sure. It counts each document once. It removes positions that are not
// doubled: a bucket written meanwhile came twice, or a copy is gone. It returns the documents whose copies count.
func (w *window) countCopies(ctx context.Context, some map[timeseries.Position]*copies) (map[string]bool, error) {
	w.progress("looking again for doubled measurements", w.end)
	for range recounts {
		for _, c := range some {
			*c = copies{}
		}
		if err := w.compactions.begin(ctx); err != nil {
			return nil, err
		}
		counted, least := map[string]bool{}, sure
		err := w.scanOnce(ctx, some, false, func(b *listing, id string) error {
			counts, how := w.compactions.judge(b)
			if least = max(least, how); counts {
				counted[id] = true
				countCopy(b, id, some)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		changed, err := w.compactions.changed(ctx)
		if err != nil {
			return nil, err
		}
		if least == sure || least == resting && !changed {
			maps.DeleteFunc(some, func(_ timeseries.Position, c *copies) bool { return c.count < 2 })
			return counted, nil
		}
	}
	return nil, errKeptChanging
}

// countCopy counts the copies in one document.
func countCopy(b *listing, id string, some map[timeseries.Position]*copies) {
	for _, p := range b.positions {
		c := some[p]
		if c == nil {
			continue
		}
		if c.count == 0 || id < c.keep {
			c.keep = id
		}
		c.count++
	}
}

// findKept reads the copies that stay, and reports whether it found all. It reads them after the copies were counted. So no copy
// to be removed was made from the copy that stays.
func (w *window) findKept(ctx context.Context, some map[timeseries.Position]*copies) (all bool, err error) {
	if err := w.compactions.begin(ctx); err != nil {
		return false, err
	}
	err = w.scanOnce(ctx, some, true, func(b *listing, id string) error {
		if counts, how := w.compactions.judge(b); !counts || how == unsure {
			return nil
		}
		sums := w.sums(b)
		for i, p := range b.positions {
			c := some[p]
			if c == nil {
				continue
			}
			if c.damaged = c.damaged || sums == nil; id == c.keep && !c.kept {
				if c.kept = true; sums != nil {
					c.sum = sums[i]
				}
			}
		}
		return nil
	})
	all = true
	for _, c := range some {
		all = all && c.kept
	}
	return all, err
}

// scanOnce reads the documents that list some of the positions, each once.
func (w *window) scanOnce(ctx context.Context, some map[timeseries.Position]*copies, whole bool, each func(b *listing, id string) error) error {
	from, to := w.end, w.start
	for p := range some {
		from, to = min(from, p.Offset), max(to, p.Offset+1)
	}
	seen := map[string]bool{}
	return w.scan(ctx, from, to, whole, func(b *listing) error {
		lists := slices.ContainsFunc(b.positions, func(p timeseries.Position) bool { return some[p] != nil })
		id := w.idOf(b)
		if !lists || seen[id] {
			return nil
		}
		seen[id] = true
		return each(b, id)
	})
}

// idOf names a document by a string that sorts as ObjectIDs do, with segments after all buckets. The choice of the copy that
// stays must not change when another copy is compacted. Otherwise two repairs could each keep the copy that the other removes. A
// copy in a bucket stays there, and a copy in a segment moves into a bucket. In a sharded collection, an _id is unique only
// within a shard. So the name includes the shard key: meta and control.min.<time>.
func (w *window) idOf(b *listing) string {
	kind := "bucket"
	if b.segment {
		kind = "segment"
	}
	name := []byte(kind)
	for _, v := range []bson.RawValue{
		lookup(b.document, timeseries.FieldID), lookup(b.document, timeseries.FieldMeta), b.control(timeseries.FieldMin, w.Collection.TimeField),
	} {
		name = append(append(name, byte(v.Type)), v.Value...)
	}
	return string(name)
}

// sums returns the fingerprints of a bucket's measurements, in their order. It returns nil for a bucket that contradicts itself.
func (w *window) sums(b *listing) []fingerprint {
	sums := make([]fingerprint, 0, len(b.positions))
	err := w.unpack(b, func(m timeseries.Unpacked) { sums = append(sums, w.hash.sum(m.Time, m.Meta, m.Elements)) })
	if err != nil || b.broken != "" {
		return nil
	}
	return sums
}
