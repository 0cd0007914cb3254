package verify

import (
	"context"
	"slices"

	"waterwheel/claim"
	"waterwheel/timeseries"
)

// maxDoubles is how many doubled positions are looked at together: each takes some hundred bytes.
const maxDoubles = 1 << 16

// copies are the places of one doubled measurement.
type copies struct {
	count int
	// keep is the smallest of the documents that list it, as idOf writes them; that copy stays.
	keep string
	// sum is the fingerprint of the copy that stays.
	sum fingerprint
	// damaged: a bucket that lists it contradicts itself, so that it cannot be told which values are the measurement's.
	damaged bool
	// staged: a segment lists it; settled: a bucket that was made of segments does.
	staged, settled bool
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
		w.doubled.add(p)
		w.found.Doubled.add(p, w.Examples)
	}
	if w.Repair == Leave || len(some) == 0 {
		return nil
	}
	return w.repair(ctx, some)
}

// countCopies finds the copies again, each document once, until it is sure of them.
func (w *window) countCopies(ctx context.Context, some map[timeseries.Position]*copies) error {
	w.progress("looking again for what is doubled", w.end)
	for range recounts {
		for _, c := range some {
			*c = copies{}
		}
		if err := w.settlings.begin(ctx); err != nil {
			return err
		}
		least := sure
		err := w.scanOnce(ctx, some, w.Repair != Leave, func(b *listing, id string) error {
			counts, st := w.settlings.judge(b)
			if least = max(least, st); counts {
				w.countCopy(b, id, some)
			}
			return nil
		})
		if err != nil {
			return err
		}
		lifted, err := w.settlings.lifted(ctx)
		if err != nil || least == sure || least == announced && !lifted {
			return err
		}
	}
	return errUnsettled
}

// countCopy counts the copies in one document.
func (w *window) countCopy(b *listing, id string, some map[timeseries.Position]*copies) {
	var sums []fingerprint
	if w.Repair != Leave {
		sums = w.sums(b)
	}
	for i, p := range b.positions {
		c := some[p]
		if c == nil {
			continue
		}
		c.staged, c.settled = c.staged || b.segment, c.settled || b.by != claim.Token{} && !b.segment
		c.damaged = c.damaged || w.Repair != Leave && sums == nil
		first := c.count == 0 || id < c.keep
		if c.count++; !first {
			continue
		}
		if c.keep = id; sums != nil {
			c.sum = sums[i]
		}
	}
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
		id := idOf(b)
		if !lists || seen[id] {
			return nil
		}
		seen[id] = true
		return each(b, id)
	})
}

// idOf names a document by a string that sorts as ObjectIDs do, and segments behind all buckets: which copy stays must not change
// when another is settled, or two repairs could keep each the copy that the other takes out. Buckets stay what they are, and a segment's
// copy comes to be in a bucket.
func idOf(b *listing) string {
	kind := "bucket"
	if b.segment {
		kind = "segment"
	}
	id := lookup(b.document, timeseries.FieldID)
	return kind + string(byte(id.Type)) + string(id.Value)
}

// sums are the fingerprints of a bucket's measurements, in their order; nil for a bucket that contradicts itself.
func (w *window) sums(b *listing) []fingerprint {
	sums := make([]fingerprint, 0, len(b.positions))
	err := w.unpack(b, func(m timeseries.Unpacked) { sums = append(sums, w.hash.sum(m.Time, m.Meta, m.Elements)) })
	if err != nil || b.broken != "" {
		return nil
	}
	return sums
}
