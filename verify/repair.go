package verify

import (
	"context"

	"waterwheel/claim"
	"waterwheel/timeseries"
)

// repairPasses bounds how often a bucket is read again because a live owner changed it between its reading and its repair.
const repairPasses = 10

// repair takes all copies but one out, bucket by bucket, or tells what it would do.
//
// Settlings may come and end meanwhile. What they made is left alone unless they were over when the copies were counted: a
// copy that was not counted is never the last that is taken out. A segment is changed only as long as it has no end, and its
// edits are counted up: a settling that has read it before is undone then, and one whose segment is deleted as well. A double in a
// segment and in a settled bucket is left until the segment is settled too: the bucket may be one of a settling that was
// undone, which came late, and the next settling deletes it.
func (w *window) repair(ctx context.Context, some map[timeseries.Position]*copies) error {
	w.progress("taking doubles out", w.end)
	if err := w.settlings.refresh(ctx); err != nil {
		return err
	}
	var moved map[string]bool // the buckets that were changed meanwhile; nil before the first pass
	for pass := 1; pass == 1 || len(moved) > 0; pass++ {
		again := map[string]bool{}
		err := w.scanOnce(ctx, some, true, func(b *listing, id string) error {
			if moved != nil && !moved[id] {
				return nil
			}
			counts, st := w.settlings.judge(b)
			if st == unsure {
				w.found.Repair.Left.add(b.fault("", "was settled meanwhile: run the repair again"), w.Examples)
			}
			if st == unsure || !counts {
				return nil
			}
			done, err := w.repairBucket(ctx, b, id, some)
			switch {
			case err != nil:
				return err
			case done:
			case pass == repairPasses:
				w.found.Repair.Left.add(b.fault("", "was changed again and again meanwhile: run the repair again"), w.Examples)
			default:
				again[id] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		moved = again
	}
	for _, c := range some {
		if c.removed != c.count-1 {
			continue
		}
		if w.Repair == Repair {
			w.found.Repair.Repaired++
		} else {
			w.found.Repair.Planned++
		}
	}
	return nil
}

// repairBucket takes the surplus out of one bucket; not done: the bucket is not any more what was read.
func (w *window) repairBucket(ctx context.Context, b *listing, id string, some map[timeseries.Position]*copies) (done bool, err error) {
	drop, removed, left := w.surplus(b, id, some)
	if removed > 0 {
		if done, err = w.remove(ctx, b, drop, removed); err != nil || !done {
			return false, err
		}
	}
	for _, fault := range left {
		w.found.Repair.Left.add(fault, w.Examples)
	}
	for i, p := range b.positions {
		if drop[i] {
			some[p].removed++
		}
	}
	return true, nil
}

// surplus tells which measurements of a bucket, by index, are copies to be taken out, and how many: those that another with a
// smaller idOf, or this one at a smaller index, holds as well, if both are the same. What is left though it is a copy is told.
func (w *window) surplus(b *listing, id string, some map[timeseries.Position]*copies) (drop []bool, removed int, left []Fault) {
	sums := w.sums(b)
	drop = make([]bool, len(b.positions))
	newer := false
	kept := map[timeseries.Position]bool{}
	for i, p := range b.positions {
		c := some[p]
		if c == nil {
			continue
		}
		if id == c.keep && !kept[p] {
			kept[p] = true
			continue
		}
		if id < c.keep {
			newer = true // it came meanwhile, and another repair would keep just this copy
			continue
		}
		fault := Fault{Bucket: b.id(), Position: &p}
		switch {
		case b.segment && b.by != claim.Token{}: // it is frozen
			fault.Text = "is being compacted: run the repair again when that is over"
		case c.staged && c.settled:
			fault.Text = "is in a segment and in a bucket made of segments: run the repair again when that segment is settled"
		case c.damaged || sums == nil:
			fault.Text = "a bucket that lists it is damaged: repair or delete that bucket by hand"
		case sums[i] != c.sum:
			fault.Text = "its copies differ: look with --content which one the record agrees with"
		default:
			drop[i] = true
			removed++
			continue
		}
		left = append(left, fault)
	}
	if newer {
		left = append(left, b.fault("", "holds copies that came meanwhile: run the repair again"))
	}
	return drop, removed, left
}

// remove takes measurements out of a bucket, if it still is as it was read, and counts that.
func (w *window) remove(ctx context.Context, b *listing, drop []bool, removed int) (done bool, err error) {
	kept := len(b.positions) - removed
	r := &w.found.Repair
	switch {
	case w.Repair == DryRun:
		done = true
	case kept == 0:
		done, err = w.Buckets.Delete(ctx, w.condition(b))
	default:
		done, err = w.Buckets.Update(ctx, w.condition(b), w.remainder(b, drop))
	}
	if err != nil || !done {
		return false, err
	}
	r.Copies += int64(removed)
	if kept == 0 {
		r.Deleted++
	} else {
		r.Updated++
	}
	if len(r.First) < w.Examples {
		r.First = append(r.First, RepairedBucket{Bucket: b.id(), Removed: removed, Kept: kept})
	}
	return true, nil
}
