package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

const (
	// compactedLong is the minimum age of the moment that shows a bucket. From that age on, the first reading of a window knows
	// that the bucket's compaction had ended before. When the bucket is inserted, that moment lies in the future, by MongoDB's
	// clock.
	compactedLong = 15 * time.Minute
	// recounts bounds how often positions are counted again because their compaction ended or was rolled back meanwhile. A
	// measurement is compacted once, unless the compaction is rolled back, so the second count is nearly always sure.
	recounts = 10
)

// errKeptChanging means that the stored copies of some measurements could not be told apart.
var errKeptChanging = errors.New("compaction kept changing the same measurements: verify again")

// compactions decides which of the documents that list a measurement is its stored copy. A compaction is unfinished as long as it
// has frozen segments and none of its segments has ended. It may still be rolled back, so its segments hold the measurements, and
// its buckets do not count. As soon as one segment has ended, the compaction is never rolled back. Then its buckets hold the
// measurements, and its segments, ended or still frozen, do not count. (No document names a compaction that was rolled back.)
//
// A reading of documents takes time, and whole compactions may happen during it. The reading may see a segment before its freeze,
// and later the buckets made of it. Or it may pass the place of the buckets before they are inserted, and later see the segment
// after its end. So the answer is sure only for compactions whose state did not change during the reading:
//
//   - A compaction that a document named, and that is not unfinished afterwards, has ended or was rolled back for good. It
//     never becomes unfinished again. A reading that begins later finds all of its buckets, or none.
//   - A compaction that is unfinished both before and after a reading was unfinished all the time.
//
// A reading counts a measurement wrongly only if its compaction changed during that reading. Then the reading saw a document that
// names the compaction. It is one of its buckets, in addition to the segment before its freeze, or the segment after its end. The
// positions in such documents are unsure, and are read again. (One case escapes: the segments were deleted before the reading
// came to them, and the buckets were inserted behind it. Then the measurements seem to be missing, and the verifier looks for
// missing ones again.)
type compactions struct {
	buckets Buckets
	// unfinished are the unfinished compactions, read before the documents.
	unfinished map[claim.Token]bool
	// seen are the compactions that documents named. over are those in seen that were no longer unfinished at a later reading.
	seen, over map[claim.Token]bool
	// long is the moment before which a bucket must be shown to count as old, in milliseconds since 1970. Zero means that no
	// bucket counts as old.
	long int64
}

func newCompactions(buckets Buckets) *compactions {
	return &compactions{buckets: buckets, seen: map[claim.Token]bool{}, over: map[claim.Token]bool{}}
}

// begin must be called before documents are read.
func (c *compactions) begin(ctx context.Context) (err error) {
	if c.unfinished, err = c.read(ctx); err != nil {
		return err
	}
	for id := range c.seen {
		c.over[id] = c.over[id] || !c.unfinished[id]
	}
	c.long = 0
	return nil
}

func (c *compactions) read(ctx context.Context) (map[claim.Token]bool, error) {
	unfinished, err := c.buckets.Unfinished(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading which compactions are unfinished: %w", err)
	}
	return unfinished, nil
}

// changed is called after documents were read. It reports whether a compaction that was unfinished before has ended or was rolled
// back.
func (c *compactions) changed(ctx context.Context) (bool, error) {
	if len(c.unfinished) == 0 {
		return false, nil
	}
	now, err := c.read(ctx)
	for id := range c.unfinished {
		if !now[id] {
			return true, err
		}
	}
	return false, err
}

// certainty is how sure a judgement of a document is.
type certainty uint8

const (
	sure    certainty = iota
	resting           // sure if the compaction stays unfinished
	unsure            // the compaction began, or ended, at an unknown time
)

// judge reports whether a document is the stored copy of the measurements that it lists.
func (c *compactions) judge(b *listing) (counts bool, how certainty) {
	if b.compaction == (claim.Token{}) {
		return !b.ended, sure
	}
	c.seen[b.compaction] = true
	switch counts = !b.segment; {
	case c.unfinished[b.compaction]:
		return b.segment, resting
	case c.over[b.compaction], b.moment != 0 && b.moment < c.long:
		return counts, sure
	}
	return counts, unsure
}

// count reads the positions that documents list in the offsets [from, to), and puts them into stored and twice. It considers only
// the positions in of, or all if of is nil. It calls each for every document. It returns the positions whose result is not sure.
func (w *window) count(ctx context.Context, of *set, from, to int64, whole bool, each func(b *listing, counts bool)) (*set, error) {
	again, rest := newSet(w.start), newSet(w.start) // rest becomes sure if no compaction changed
	err := w.scan(ctx, from, to, whole, func(b *listing) error {
		counts, how := w.compactions.judge(b)
		for _, p := range b.positions {
			if !w.holds(p) || of != nil && !of.has(p) {
				continue
			}
			switch how {
			case resting:
				rest.add(p)
			case unsure:
				again.add(p)
			}
			if counts && !w.stored.add(p) {
				w.twice.add(p)
			}
		}
		each(b, counts)
		return nil
	})
	if err != nil {
		return nil, err
	}
	changed, err := w.compactions.changed(ctx)
	if changed {
		again = again.or(rest)
	}
	return again, err
}

// recount counts some positions again, until the result is sure.
func (w *window) recount(ctx context.Context, of *set) error {
	for range recounts {
		if of.count() == 0 {
			return nil
		}
		w.stored, w.twice = w.stored.without(of), w.twice.without(of)
		if err := w.compactions.begin(ctx); err != nil {
			return err
		}
		from, to := of.span()
		again, err := w.count(ctx, of, from, to, false, func(*listing, bool) {})
		if err != nil {
			return err
		}
		of = again
	}
	return errKeptChanging
}

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
		all, err := w.findKept(ctx, some)
		if err != nil {
			return err
		}
		if all {
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
