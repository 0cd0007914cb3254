package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

const (
	// defaultEvery is how often Follow looks for new measurements by default.
	defaultEvery = time.Second
	// trail is how long the mark of a source stays behind the largest offset seen. Only time in which new offsets arrived counts.
	trail = time.Minute
	// fetchedAtOnce is how many buckets and segments one query fetches.
	fetchedAtOnce = 100
)

// Follow yields measurements stored from now on, until ctx ends. The end of ctx is no error. It looks for new ones at the
// interval every (zero means once a second). The measurements of one bucket or segment come in the order in which they were
// stored. All others come in no particular order.
//
// Each measurement comes once. Follow yields every measurement whose offset is larger than the largest of its partition that was
// stored when Follow began. The exception is one that is stored more than a minute of the partition's active time after larger
// offsets. The writes of one flush land in any order. But a partition begins a flush only when the previous one is stored. The
// first flush of the next owner holds the remains of an interrupted one. So Follow misses only measurements of a consumer whose
// offsets were reset. It does not follow buckets without control.source, which no consumer writes.
func (s *Series) Follow(ctx context.Context, q Query, every time.Duration) iter.Seq2[Measurement, error] {
	return func(yield func(Measurement, error) bool) {
		p, err := s.prepare(ctx, q)
		if err != nil {
			yield(Measurement{}, err)
			return
		}
		if every <= 0 {
			every = defaultEvery
		}
		f := &following{reading: newReading(s, &p, yield), sources: map[timeseries.Source]*followed{}, every: every}
		if err := f.run(ctx); err != nil && !errors.Is(err, errEnough) && ctx.Err() == nil {
			yield(Measurement{}, fmt.Errorf("following %s: %w", s.namespace, err))
		}
	}
}

// following is one run of Follow.
type following struct {
	*reading
	every   time.Duration
	sources map[timeseries.Source]*followed // The Topic of each is empty.
	begun   bool                            // The initial marks of the sources are set.
	looked  time.Time
	// progressed means that a query was answered to its end since the last failure.
	progressed bool
}

// followed is the progress in one source.
type followed struct {
	source timeseries.Source
	// mark means that everything whose largest offset is not larger has been shown.
	mark int64
	// seen are the largest offsets seen, each with the active time of the source at that moment.
	seen   []passage
	active time.Duration
	shown  map[string]shownBucket // the shown buckets and segments with larger offsets than the mark, by _id
	passed passed                 // the shown measurements of segments and of compacted buckets
}

type passage struct {
	offset int64
	active time.Duration
}

type shownBucket struct {
	count int   // of measurements
	last  int64 // control.source.last
}

func (f *following) run(ctx context.Context) error {
	var r retry
	for {
		f.progressed = false
		err := f.look(ctx)
		if f.progressed {
			r.progressed()
		}
		if err == nil {
			select {
			case <-time.After(f.every):
			case <-ctx.Done():
				return nil
			}
			continue
		}
		if errors.Is(err, errEnough) {
			return err
		}
		if err := r.wait(ctx, err); err != nil {
			return err
		}
	}
}

// look shows what is new since the last look.
func (f *following) look(ctx context.Context) error {
	if err := f.discover(ctx); err != nil {
		return err
	}
	now := time.Now()
	gap := min(now.Sub(f.looked), 2*f.every)
	f.looked = now
	for _, source := range f.sources {
		if err := f.lookAt(ctx, source, gap); err != nil {
			return err
		}
	}
	return nil
}

// discover finds sources that are not followed yet, and reads the current definition of the time series. In the first call it
// sets the marks of all sources.
func (f *following) discover(ctx context.Context) error {
	if err := f.series.present(ctx, f.plan); err != nil {
		return err
	}
	answer, err := f.series.port.sources(ctx)
	err = each(ctx, answer, err, func(d bson.Raw) error {
		if source, ok := sourceOf(d); ok && f.sources[source] == nil {
			f.sources[source] = &followed{source: source, mark: -1, shown: map[string]shownBucket{}}
		}
		return nil
	})
	if err != nil || f.begun {
		return err
	}
	for _, source := range f.sources {
		if source.mark, err = f.newest(ctx, source); err != nil {
			return err
		}
	}
	f.begun = true
	return nil
}

// newest returns the largest offset that is stored of a source, whatever the query selects. It returns at least the mark.
func (f *following) newest(ctx context.Context, source *followed) (int64, error) {
	last := source.mark
	answer, err := f.series.port.find(ctx, latestOf(source.source, timeseries.PathLast))
	err = each(ctx, answer, err, func(d bson.Raw) error {
		last = max(last, lastOf(d))
		return nil
	})
	return last, err
}

// lookAt yields what is new in a source, and moves its mark.
func (f *following) lookAt(ctx context.Context, source *followed, gap time.Duration) error {
	before := source.mark
	if n := len(source.seen); n > 0 {
		before = source.seen[n-1].offset
	}
	reached := source.mark
	if len(f.selected()) > 0 { // Otherwise the mark of a rare series would stand still, and the range to search would only grow.
		var err error
		if reached, err = f.newest(ctx, source); err != nil {
			return err
		}
	}
	changed, last, err := f.changed(ctx, source)
	if err != nil {
		return err
	}
	last = max(last, reached)
	f.progressed = true
	for some := range slices.Chunk(changed, fetchedAtOnce) {
		if err := f.show(ctx, source, some); err != nil {
			return err
		}
		f.progressed = true
	}
	if last > before {
		source.active += gap
		source.seen = append(source.seen, passage{last, source.active})
		source.moveMark()
	}
	return nil
}

// moveMark moves the mark up to the offsets seen before the trail, and forgets what was shown below it.
func (s *followed) moveMark() {
	before := s.mark
	for len(s.seen) > 0 && s.seen[0].active <= s.active-trail {
		s.mark, s.seen = s.seen[0].offset, s.seen[1:]
	}
	if s.mark == before {
		return
	}
	maps.DeleteFunc(s.shown, func(_ string, b shownBucket) bool { return b.last <= s.mark })
	s.passed.forget(s.mark)
}

// changed is a bucket or segment that has more measurements than were shown.
type changed struct {
	id      bson.RawValue
	segment bool
}

// changed lists the buckets and segments that have more measurements than were shown. last is the largest offset of all.
func (f *following) changed(ctx context.Context, source *followed) (list []changed, last int64, err error) {
	beyond := bson.E{Key: timeseries.PathLast, Value: bson.D{{Key: "$gt", Value: source.mark}}}
	r := request{
		filter:     bson.D{{Key: "$and", Value: bson.A{append(timeseries.OfSource(source.source), beyond), f.selected()}}},
		sort:       bson.D{{Key: timeseries.PathLast, Value: 1}},
		projection: bson.D{{Key: timeseries.PathCount, Value: 1}, {Key: timeseries.PathLast, Value: 1}, {Key: timeseries.PathOwner, Value: 1}},
		hint:       timeseries.SourceIndex(),
	}
	last = source.mark
	answer, err := f.series.port.find(ctx, r)
	err = each(ctx, answer, err, func(d bson.Raw) error {
		last = max(last, lastOf(d))
		id := idOf(d)
		before, known := source.shown[timeseries.Key(id)]
		count, ok := d.Lookup(timeseries.FieldControl, timeseries.FieldCount).AsInt64OK()
		if !known || ok && count > int64(before.count) {
			list = append(list, changed{timeseries.Clone(id), isSegment(d)})
		}
		return nil
	})
	return list, last, err
}

// selected is the query's filter on series and times. It may select segments without a selected series.
func (f *following) selected() bson.D {
	times := f.series.timeFilter(f.plan)
	if len(f.plan.meta) == 0 || !f.plan.segments {
		return append(times, f.plan.meta...)
	}
	either := bson.A{both(bson.D{timeseries.IsAbsent(timeseries.PathOwner)}, f.plan.meta)}
	either = append(either, f.plan.bounds.appendTo(bson.D{timeseries.IsSegment()}))
	return append(times, bson.E{Key: "$or", Value: either})
}

// show fetches changed buckets and segments, and yields what is new in them.
func (f *following) show(ctx context.Context, source *followed, list []changed) error {
	ids, segments := bson.A{}, bson.A{}
	for _, one := range list {
		ids = append(ids, one.id)
		if one.segment {
			segments = append(segments, one.id)
		}
	}
	var c choice
	if len(segments) > 0 {
		var err error
		if c, err = f.series.choose(ctx, f.plan, byID(segments)); err != nil {
			return err
		}
	}
	r := request{filter: byID(ids), projection: f.series.withSegments(f.plan.projection)}
	answer, err := f.series.port.find(ctx, r)
	return each(ctx, answer, err, func(bucket bson.Raw) error { return f.showBucket(source, bucket, &c) })
}

func byID(ids bson.A) bson.D {
	return bson.D{{Key: timeseries.FieldID, Value: bson.D{{Key: "$in", Value: ids}}}}
}

// showBucket yields what is new in a bucket or a segment. c selects series in segments.
func (f *following) showBucket(source *followed, bucket bson.Raw, c *choice) error {
	key := timeseries.Key(idOf(bucket))
	before, known := source.shown[key]
	now := shownBucket{last: lastOf(bucket), count: before.count}
	h := f.merge.spare()
	defer f.merge.release(h)
	err := h.unpacker.Reset(bucket)
	h.bucket, h.source = append(h.bucket[:0], bucket...), h.unpacker.Source()
	segment := h.unpacker.IsSegment()
	compacted := bucket.Lookup(timeseries.FieldControl, timeseries.FieldCompaction).Type != 0
	twice := segment || compacted // a measurement may come both in a segment and in a bucket
	for i := 0; err == nil && h.unpacker.Next(&h.current); i++ {
		if known && i < before.count || !known && h.current.Position.Offset <= source.mark {
			now.count = max(now.count, i+1)
			continue
		}
		now.count = i + 1
		source.shown[key] = now
		switch {
		case h.current.Time < f.plan.first || h.current.Time > f.plan.last,
			segment && !c.takes(h.current.Meta),
			twice && !source.passed.add(h.current.Position):
			continue
		}
		if err := f.give(h); err != nil {
			return err
		}
	}
	if err == nil {
		err = h.unpacker.Err()
	}
	if err != nil && !known {
		if err := f.bad(bucket, err); err != nil {
			return err
		}
	}
	source.shown[key] = now
	return nil
}

// latestOf requests some fields of the bucket that has the largest offset of a source.
func latestOf(source timeseries.Source, paths ...string) request {
	r := request{filter: timeseries.OfSource(source), sort: bson.D{{Key: timeseries.PathLast, Value: -1}}, hint: timeseries.SourceIndex(), limit: 1}
	for _, path := range paths {
		r.projection = append(r.projection, bson.E{Key: path, Value: 1})
	}
	return r
}

// sourceOf reads a partition document. False means that it has another form.
func sourceOf(d bson.Raw) (timeseries.Source, bool) {
	var source timeseries.Source
	id, _ := d.Lookup(timeseries.FieldID).StringValueOK()
	number, err := strconv.ParseInt(id[strings.LastIndexByte(id, '/')+1:], 10, 32)
	_, topic, ok := d.Lookup(timeseries.FieldTopicID).BinaryOK()
	if err != nil || !ok || len(topic) != len(source.TopicID) {
		return source, false
	}
	source.Partition = int32(number)
	copy(source.TopicID[:], topic)
	return source, true
}

// lastOf returns a bucket's largest offset, or -1 if the bucket lists none.
func lastOf(bucket bson.Raw) int64 {
	if n, ok := bucket.Lookup(timeseries.FieldControl, timeseries.FieldSource, timeseries.FieldLast).AsInt64OK(); ok {
		return n
	}
	return -1
}

// passedWindow is the number of offsets that one set covers.
const passedWindow = 1 << 32

// passed is the set of positions of a partition that were already shown. It forgets them some time after the mark has passed
// them.
type passed struct {
	older, newer *timeseries.PositionSet // Nil means empty.
}

// add adds a position, and reports whether it is new.
func (p *passed) add(at timeseries.Position) bool {
	if p.older != nil && p.older.Contains(at) || p.newer != nil && p.newer.Contains(at) {
		return false
	}
	if p.newer == nil {
		start := max(at.Offset-passedWindow/2, 0)
		p.newer = timeseries.NewPositionSet(start, start+passedWindow)
	}
	p.newer.Add(at)
	return true
}

// forget drops positions up to a mark, or some of them. Callers never ask for these again.
func (p *passed) forget(mark int64) {
	if p.older != nil {
		if last, ok := p.older.Max(); ok && last > mark {
			return
		}
	}
	p.older, p.newer = p.newer, nil
}
