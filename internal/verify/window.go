package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// progressEvery is how many records or buckets are read between two progress reports.
const progressEvery = 4096

// errFull ends the reading of a log when the window has its maximum of array elements.
var errFull = errors.New("the window is full")

// window is the part of a range that is judged at a time.
type window struct {
	Options
	rng Range
	// start is the window's first offset, and end the one after its last. low is the first offset that the log still had.
	start, end, low int64

	// These come from the log: valid measurements, those of them that may have expired, bad records and elements, and the offsets
	// of records without measurements.
	valid, old, bad, empty *set
	// undecided is why the content of a record is unknown for now. Nil means that it is known.
	undecided error
	// stored are the positions that buckets and segments list, and twice those that they seem to list more than once. Both are
	// unsure for the positions in again.
	stored, twice *set
	again         *set
	doubled       *set // the positions that are surely doubled
	renamed       *set // the positions that are stored with another meta than the record's
	compactions   *compactions
	contents      *fingerprints // Nil without Content.
	suspects      []suspect     // the first measurements that differ

	listing     listing
	unpacker    *timeseries.Unpacker
	hash        *hasher
	before      int64 // number of records in earlier windows
	found       Findings
	firstStored int64
	expiring    int64 // Measurements older than this, less the time for which they are kept, may be gone. In milliseconds since 1970.
}

func (v *Verifier) window(r Range, start, before int64) *window {
	w := &window{
		Options: v.o, rng: r, start: start, end: r.To, low: start, before: before, firstStored: -1,
		unpacker: timeseries.NewUnpacker(v.o.Collection), hash: newHasher(),
		valid: newSet(start), old: newSet(start), bad: newSet(start), empty: newSet(start), stored: newSet(start), twice: newSet(start),
		doubled: newSet(start), renamed: newSet(start),
		compactions: newCompactions(v.o.Buckets),
	}
	if r.To-start > v.o.Window {
		w.end = start + v.o.Window
	}
	if v.o.Content {
		w.contents = &fingerprints{start: start}
	}
	return w
}

// judge reads the log, then the buckets, and compares them.
func (w *window) judge(ctx context.Context) error {
	if err := w.readLog(ctx); err != nil {
		return fmt.Errorf("reading records of %s/%d: %w", w.rng.Source.Topic, w.rng.Source.Partition, err)
	}
	if err := w.readBuckets(ctx); err != nil {
		return fmt.Errorf("reading the buckets of %s/%d: %w", w.rng.Source.Topic, w.rng.Source.Partition, err)
	}
	if err := w.judgeRenamed(ctx); err != nil {
		return err
	}
	if err := w.explain(ctx); err != nil {
		return fmt.Errorf("reading records of %s/%d again: %w", w.rng.Source.Topic, w.rng.Source.Partition, err)
	}
	if err := w.conclude(ctx); err != nil {
		return fmt.Errorf("reading buckets of %s/%d again: %w", w.rng.Source.Topic, w.rng.Source.Partition, err)
	}
	return nil
}

// readLog determines from the records which positions must be stored.
func (w *window) readLog(ctx context.Context) error {
	if w.Collection.ExpireAfterSeconds > 0 {
		w.expiring = w.Now() + time.Hour.Milliseconds()
	}
	parts, read := int64(0), w.end // read is the first offset that was read
	first, err := w.Log.Scan(ctx, w.rng.partition(), w.start, w.end, func(r *record.Record) error {
		read = min(read, r.Offset)
		n := w.take(r)
		if w.undecided != nil {
			return w.undecided
		}
		if w.found.Records++; w.found.Records%progressEvery == 0 {
			w.progress("reading records", r.Offset+1)
		}
		if parts += int64(max(0, n-1)); parts > w.Window/partsShare {
			w.end = r.Offset + 1
			return errFull
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return err
	}
	if read < first {
		return fmt.Errorf("retention removed the records below offset %d while they were read: verify again from there", first)
	}
	w.low = min(max(first, w.start), w.end)
	w.found.Removed = w.low - w.start
	w.progress("reading records", w.end)
	return nil
}

// take records what a record holds, and returns its number of measurements.
func (w *window) take(r *record.Record) int {
	if r.Value == nil {
		w.found.Tombstones++
		w.empty.add(timeseries.Position{Offset: r.Offset})
		return 0
	}
	results, err := w.Decoder.TryDecode(*r)
	if _, unknown := errors.AsType[*measurement.NeedSchemaError](err); unknown {
		w.undecided = fmt.Errorf("decoding the record at offset %d: %w", r.Offset, err)
		return 0
	}
	if err != nil {
		w.bad.add(timeseries.Position{Offset: r.Offset})
		return 0
	}
	if len(results) == 0 { // The root is null, or the decoder skips all of it.
		w.found.Tombstones++
		w.empty.add(timeseries.Position{Offset: r.Offset})
	}
	for i := range results {
		m := &results[i].Measurement
		if results[i].Err != nil {
			w.bad.add(m.Position)
			continue
		}
		w.valid.add(m.Position)
		if keep := w.Collection.ExpireAfterSeconds; keep > 0 && m.Time < w.expiring-keep*1000 {
			w.old.add(m.Position)
		}
		if w.contents != nil {
			w.contents.add(m.Position, w.hash.sum(m.Time, m.Meta, m.Elements))
		}
	}
	return len(results)
}

// readBuckets determines from the buckets and segments which positions are stored.
func (w *window) readBuckets(ctx context.Context) error {
	if err := w.compactions.begin(ctx); err != nil {
		return err
	}
	if w.Now != nil {
		w.compactions.long = w.Now() - compactedLong.Milliseconds()
	}
	var err error
	w.again, err = w.count(ctx, nil, w.low, w.end, w.Content, func(b *listing, counts bool) {
		if b.segment {
			w.found.Segments++
		} else {
			w.found.Buckets++
		}
		if (w.found.Buckets+w.found.Segments)%progressEvery == 0 {
			w.progress("reading buckets", w.end)
		}
		if w.owns(b) {
			w.check(b)
		}
		if counts && w.contents != nil {
			w.compare(b)
		}
	})
	return err
}

// scan reads the buckets that may list offsets in [from, to).
func (w *window) scan(ctx context.Context, from, to int64, whole bool, each func(b *listing) error) error {
	return w.Buckets.Find(ctx, w.rng.Source, from, to, whole, func(document bson.Raw) error {
		w.listing.read(document)
		return each(&w.listing)
	})
}

func (w *window) holds(p timeseries.Position) bool { return p.Offset >= w.low && p.Offset < w.end }

// owns reports whether a bucket is checked in this window. A bucket that spans several windows is checked once.
func (w *window) owns(b *listing) bool {
	first := b.begins()
	return first >= w.start && first < w.end || first < w.rng.From && w.start == w.rng.From
}

func (w *window) progress(operation string, offset int64) {
	if w.Options.Progress != nil {
		w.Options.Progress(Progress{
			Partition: w.rng.Source.Partition, From: w.rng.From, Offset: offset, To: w.rng.To,
			Records: w.before + w.found.Records, Operation: operation,
		})
	}
}

// conclude compares the measurements in the log with those that buckets list.
func (w *window) conclude(ctx context.Context) error {
	if err := w.recount(ctx, w.again); err != nil {
		return err
	}
	missing := w.absent()
	if missing.count() > 0 {
		w.progress("looking again for missing measurements", w.end)
	}
	// Look once more before measurements are reported as missing. A query that runs while others write may miss a bucket that moves
	// in the index meanwhile, or a segment that is compacted. A new primary may for a moment show less than was acknowledged.
	if err := w.recount(ctx, missing); err != nil {
		return err
	}
	if err := w.judgeMissing(ctx, missing.without(w.stored)); err != nil {
		return err
	}
	w.bad.each(w.judgeBad)
	compacted := w.judgeSurplus()
	if err := w.judgeDoubles(ctx, w.twice.without(w.twice.without(w.valid).without(compacted))); err != nil {
		return err
	}
	w.tally(&w.found.Compacted, compacted.without(w.doubled))
	once := w.stored.and(w.valid)
	w.found.Valid, w.found.Bad = w.valid.count(), w.bad.count()
	w.found.StoredOnce = once.without(w.doubled).count()
	if once.count() > 0 {
		w.firstStored, _ = once.span()
	}
	return nil
}

// judgeMissing separates measurements that a command has deleted from missing ones.
func (w *window) judgeMissing(ctx context.Context, missing *set) error {
	missing, err := w.withoutNoted(ctx, missing, Notes.Deleted, &w.found.Deleted)
	if err == nil {
		w.tally(&w.found.Missing, missing)
	}
	return err
}

// withoutNoted counts the positions that commands have noted, and returns the others. It reads the notes after the buckets, so they
// include what commands did in between.
func (w *window) withoutNoted(
	ctx context.Context, of *set, read func(Notes, context.Context, timeseries.Source, int64, int64, func(timeseries.Position)) error, count *Tally,
) (*set, error) {
	if of.count() == 0 || w.Notes == nil {
		return of, nil
	}
	from, to := of.span()
	noted := newSet(w.start)
	if err := read(w.Notes, ctx, w.rng.Source, from, to, func(p timeseries.Position) { noted.add(p) }); err != nil {
		return nil, err
	}
	w.tally(count, of.and(noted))
	return of.without(noted), nil
}

// tally counts positions of a finding.
func (w *window) tally(of *Tally, positions *set) {
	positions.each(func(p timeseries.Position) { of.add(p, w.Examples) })
}

// judgeSurplus looks at stored positions for which the log has no valid measurement. It returns the positions at whose offset the
// log has no record at all, and counts the others as unknown.
func (w *window) judgeSurplus() (compacted *set) {
	compacted = newSet(w.start)
	w.stored.without(w.valid).each(func(p timeseries.Position) {
		record := timeseries.Position{Offset: p.Offset} // the position of the record, or of its first measurement
		if w.valid.has(record) || w.bad.has(record) || w.empty.has(record) {
			w.found.Unknown.add(p, w.Examples)
		} else {
			compacted.add(p)
		}
	})
	return compacted
}

// absent returns the positions that are missing. It counts those that need not be stored.
func (w *window) absent() *set {
	missing := newSet(w.start)
	w.valid.without(w.stored).each(func(p timeseries.Position) {
		switch {
		case w.lettered(p):
			w.found.DeadLettered++
		case w.old.has(p):
			w.found.Expired++
		default:
			missing.add(p)
		}
	})
	return missing
}

func (w *window) lettered(p timeseries.Position) bool {
	return w.DeadLetters.has(w.rng.Source.Partition, p)
}

// judgeBad looks for the dead letters of records that could not be decoded. judgeSurplus counts their stored positions as
// unknown.
func (w *window) judgeBad(p timeseries.Position) {
	switch {
	case w.lettered(p):
		w.found.DeadLettered++
	case w.stored.has(p):
	case w.DeadLetters.deleted:
		w.found.DeadLetterDeleted.add(p, w.Examples)
	default:
		w.found.DeadLetterMissing.add(p, w.Examples)
	}
}
