package sink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

const (
	// scanTries is how many tries in a row may get no further before a scan gives up. scanPause is about the time between two
	// tries.
	scanTries = 20
	scanPause = 250 * time.Millisecond
	// smallBatch is how many documents are requested at a time after an answer did not come. The server may have put more into
	// that answer than may be read.
	smallBatch = 16
)

// Buckets are a time series' buckets and segments, for commands beside the consumer that owns them, such as verifying and
// repairing. They are read as a majority has them, and changed one at a time, always on a condition. Buckets is safe for
// concurrent use.
type Buckets struct {
	c         mongodb.Editable
	timeField string
}

// Buckets returns the buckets of the time series with the given time field. The time series need not exist.
func (c Contents) Buckets(timeField string) Buckets { return Buckets{c.ports.Buckets, timeField} }

// Find calls each for every bucket and segment of a source that may list offsets in [from, to), in the order of their largest
// offset. The document is valid during that call. It has its columns only if whole is set. After a failure of MongoDB, Find
// continues at the same place, as long as it makes progress. A write meanwhile only moves a bucket away from the beginning. So
// a bucket may come twice, and none is missed, except buckets that are made of segments meanwhile. An error of each ends Find,
// which returns it unchanged.
func (b Buckets) Find(ctx context.Context, source timeseries.Source, from, to int64, whole bool, each func(document bson.Raw) error) error {
	s := scan{c: b.c, timeField: b.timeField, source: source, from: from, to: to, beside: map[[3]string]bool{}, odd: map[[3]string]bool{}}
	if !whole {
		s.projection = mongodb.Document(bson.D{
			{Key: timeseries.FieldMeta, Value: 1},
			{Key: timeseries.MinPath(b.timeField), Value: 1},
			{Key: timeseries.PathCount, Value: 1},
			{Key: timeseries.PathSource, Value: 1},
			{Key: timeseries.PathSegment, Value: 1},
			{Key: timeseries.PathCompaction, Value: 1},
		})
	}
	return s.run(ctx, each)
}

// Update changes the bucket that the filter finds. False means that it found none. After an error it is unknown what happened.
func (b Buckets) Update(ctx context.Context, filter, update bson.Raw) (bool, error) {
	done, err := mongodb.Changed(b.c.Update(ctx, []mongodb.Update{{Filter: filter, Update: update}}))
	return done, mongodb.Failure("changing a bucket", err)
}

// Delete deletes the bucket that the filter finds. False means that it found none. After an error it is unknown what happened.
func (b Buckets) Delete(ctx context.Context, filter bson.Raw) (bool, error) {
	n, err := mongodb.Executed(b.c.Delete(ctx, []bson.Raw{filter}))
	return n > 0, mongodb.Failure("deleting a bucket", err)
}

// Unfinished returns the compactions that have frozen segments and of which no segment has ended. They may be rolled back, so
// their measurements count in their segments and not in their buckets.
func (b Buckets) Unfinished(ctx context.Context) (map[claim.Token]bool, error) {
	all := map[claim.Token]bool{}
	err := b.compactions(ctx, func(id claim.Token) { all[id] = true },
		timeseries.IsPresent(timeseries.PathSegmentCompaction), timeseries.IsAbsent(timeseries.PathVisibleUntil))
	if err != nil || len(all) == 0 {
		return all, err
	}
	ids := make(bson.A, 0, len(all))
	for id := range all {
		ids = append(ids, timeseries.UUID(id))
	}
	return all, b.compactions(ctx, func(id claim.Token) { delete(all, id) },
		bson.E{Key: timeseries.PathSegmentCompaction, Value: bson.D{{Key: "$in", Value: ids}}}, timeseries.IsPresent(timeseries.PathVisibleUntil))
}

// compactions calls each with the compaction of each segment that the conditions select. Segments that have ended stay for
// minutes, and are many, so no query asks for all of them.
func (b Buckets) compactions(ctx context.Context, each func(claim.Token), conditions ...bson.E) error {
	return mongodb.Failure("reading unfinished compactions", b.c.Find(ctx, mongodb.Query{
		Filter:     mongodb.Document(append(bson.D{timeseries.IsSegment()}, conditions...)),
		Projection: mongodb.Document(bson.D{{Key: timeseries.PathSegmentCompaction, Value: 1}}), Batch: storedBatch,
	}, func(d bson.Raw) error {
		segment, _ := d.Lookup(timeseries.FieldControl, timeseries.FieldSegment).DocumentOK()
		each(timeseries.UUIDIn(segment, timeseries.FieldCompaction))
		return nil
	}))
}

// scan is the state of one Find.
type scan struct {
	c          mongodb.Collection
	timeField  string
	source     timeseries.Source
	from, to   int64
	projection bson.Raw

	last   bson.RawValue      // largest offset of the last bucket. Type 0 means that no bucket with a numeric offset has come.
	beside map[[3]string]bool // buckets that came with this largest offset
	odd    map[[3]string]bool // buckets whose largest offset is no number
	batch  int32
}

func (s *scan) run(ctx context.Context, use func(bson.Raw) error) error {
	for tries := 1; ; tries++ {
		var stopped error
		progress := false
		err := s.c.Find(ctx, s.rest(), func(d bson.Raw) error {
			if s.isNew(d) {
				progress = true
				stopped = use(d)
			}
			return stopped
		})
		if err == nil || stopped != nil {
			return stopped
		}
		err = mongodb.Failure("reading buckets", err)
		s.batch = 1
		if progress {
			tries, s.batch = 1, smallBatch
		}
		if err := mayRetry(ctx, err, tries); err != nil {
			return err
		}
	}
}

// mayRetry waits before a read is tried again after an error. It returns the error if another try is of no use.
func mayRetry(ctx context.Context, failed error, tries int) error {
	if _, ok := errors.AsType[*mongodb.OutageError](failed); !ok || tries == scanTries {
		return failed
	}
	select {
	case <-time.After(scanPause/2 + rand.N(scanPause)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rest is the query for the documents that are left to read.
func (s *scan) rest() mongodb.Query {
	from := s.from
	if n, ok := s.last.AsInt64OK(); ok {
		from = n
	}
	return mongodb.Query{
		Filter: mongodb.Document(timeseries.Listing(s.source, from, s.to-1)), Projection: s.projection, Batch: s.batch,
		Sort: mongodb.Document(bson.D{{Key: timeseries.PathLast, Value: 1}}),
	}
}

// isNew notes the position of the scan, and reports whether the bucket has not come before.
func (s *scan) isNew(d bson.Raw) bool {
	if d.Validate() != nil { // its key cannot be read, and the callback reports the damage
		return true
	}
	key := s.key(d)
	came := s.odd
	last := d.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldLast)
	if n, ok := last.AsInt64OK(); ok {
		if before, ok := s.last.AsInt64OK(); !ok || n > before {
			clear(s.beside)
			s.last = timeseries.Clone(last)
		}
		came = s.beside
	}
	known := came[key]
	came[key] = true
	return !known
}

// key identifies a bucket. In a sharded collection an _id is unique only within its shard, so the key includes the shard key.
func (s *scan) key(d bson.Raw) [3]string {
	return [3]string{
		timeseries.Key(d.Lookup(timeseries.FieldID)), timeseries.Key(d.Lookup(timeseries.FieldMeta)),
		timeseries.Key(d.Lookup(timeseries.FieldControl, timeseries.FieldMin, s.timeField)),
	}
}

// Notes list what operators' commands have done to the measurements of a time series. It is safe for concurrent use.
type Notes struct{ c mongodb.Collection }

// Notes returns the notes of the time series.
func (c Contents) Notes() Notes { return Notes{c.ports.Options} }

// Deleted calls each for the positions of a source with offsets in [from, to) that are noted as deleted. The order is
// arbitrary, and some positions come more than once. A position may be noted and still be stored; then it was not deleted.
func (n Notes) Deleted(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error {
	return n.find(ctx, collection.NotedDeleted, source, from, to, each)
}

// Changed is Deleted for positions whose measurements are noted to have another meta than their records.
func (n Notes) Changed(ctx context.Context, source timeseries.Source, from, to int64, each func(timeseries.Position)) error {
	return n.find(ctx, collection.NotedChanged, source, from, to, each)
}

func (n Notes) find(
	ctx context.Context, kind collection.NoteKind, source timeseries.Source, from, to int64, each func(timeseries.Position),
) error {
	var decoded []timeseries.Position
	use := func(element []byte) (n int, err error) {
		if decoded, err = timeseries.DecodePositions(decoded[:0], element); err != nil {
			return 0, err
		}
		for _, p := range decoded {
			if p.Offset >= from && p.Offset < to {
				each(p)
			}
		}
		return len(decoded), nil
	}
	for tries := 1; ; tries++ {
		damaged := error(nil)
		err := n.c.Find(ctx, collection.NoteQuery(kind, source, from, to-1), func(d bson.Raw) error {
			if err := readOffsets(d, use); err != nil {
				damaged = fmt.Errorf("the note %v in the options collection is damaged: %w; correct or delete the note", d.Lookup(timeseries.FieldID), err)
			}
			return damaged
		})
		if err == nil || damaged != nil {
			return damaged
		}
		err = mongodb.Failure("reading the notes of edits", err)
		if err := mayRetry(ctx, err, tries); err != nil {
			return err
		}
	}
}
