package verify

import (
	"context"
	"slices"

	"waterwheel/timeseries"
)

// maxDoubles is how many doubled positions are looked at together: each takes some hundred bytes.
const maxDoubles = 1 << 16

// copies are the places of one doubled measurement.
type copies struct {
	count int
	// keep is the smallest _id of the buckets that list it, as idOf writes it; that copy stays.
	keep string
	// sum is the fingerprint of the copy that stays.
	sum uint64
	// damaged: a bucket that lists it contradicts itself, so that it cannot be told which values are the measurement's.
	damaged bool
	// removed is how many copies were taken out, or would have been.
	removed int
}

// settleDoubles makes sure of what seems to be doubled, and takes copies out if it is asked to.
func (w *window) settleDoubles(ctx context.Context, doubled *set) error {
	var err error
	some := make(map[timeseries.Position]*copies)
	settle := func() {
		if err == nil && len(some) > 0 {
			err = w.settleSome(ctx, some)
		}
		clear(some)
	}
	doubled.each(func(p timeseries.Position) {
		if some[p] = new(copies); len(some) == maxDoubles {
			settle()
		}
	})
	settle()
	return err
}

func (w *window) settleSome(ctx context.Context, some map[timeseries.Position]*copies) error {
	if err := w.countCopies(ctx, some); err != nil {
		return err
	}
	for p, c := range some {
		if c.count < 2 { // a bucket that was written meanwhile came twice, or one is gone
			delete(some, p)
			continue
		}
		w.found.Doubled.add(p, w.Examples)
	}
	if w.Repair == Leave || len(some) == 0 {
		return nil
	}
	return w.repair(ctx, some)
}

// countCopies finds the copies again, each bucket once.
func (w *window) countCopies(ctx context.Context, some map[timeseries.Position]*copies) error {
	w.progress("looking again for what is doubled", w.end)
	return w.scanOnce(ctx, some, w.Repair != Leave, func(b *listing, id string) error {
		var sums []uint64
		if w.Repair != Leave {
			sums = w.sums(b)
		}
		for i, p := range b.positions {
			c := some[p]
			if c == nil {
				continue
			}
			c.damaged = c.damaged || w.Repair != Leave && sums == nil
			first := c.count == 0 || id < c.keep
			if c.count++; !first {
				continue
			}
			if c.keep = id; sums != nil {
				c.sum = sums[i]
			}
		}
		return nil
	})
}

// scanOnce reads the buckets that list some of the positions, each once.
func (w *window) scanOnce(ctx context.Context, some map[timeseries.Position]*copies, whole bool, each func(b *listing, id string) error) error {
	from, to := w.end, w.start
	for p := range some {
		from, to = min(from, p.Offset), max(to, p.Offset+1)
	}
	seen := map[string]bool{}
	return w.scan(ctx, from, to, whole, func(b *listing) error {
		lists := slices.ContainsFunc(b.positions, func(p timeseries.Position) bool { return some[p] != nil })
		id := idOf(b)
		if !lists || seen[id] {
			return nil
		}
		seen[id] = true
		return each(b, id)
	})
}

// idOf is a bucket's _id as a string that sorts as ObjectIDs do.
func idOf(b *listing) string {
	id := lookup(b.document, timeseries.FieldID)
	return string(byte(id.Type)) + string(id.Value)
}

// sums are the fingerprints of a bucket's measurements, in their order; nil for a bucket that contradicts itself.
func (w *window) sums(b *listing) []uint64 {
	sums := make([]uint64, 0, len(b.positions))
	err := w.unpack(b, func(m timeseries.Unpacked) { sums = append(sums, w.hash.sum(m.Time, m.Meta, m.Elements)) })
	if err != nil || b.broken != "" {
		return nil
	}
	return sums
}
