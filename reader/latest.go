package reader

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Latest yields the newest measurement of each series that the query selects, in the order of their metas. If several have the
// same time, it yields the one with the largest position. One request covers up to a thousand series. It fetches the buckets of
// each that end no earlier than the last one begins. Metas that differ only in the types of numbers (1 and 1.0) count as one
// series here.
func (s *Series) Latest(ctx context.Context, q Query) iter.Seq2[Measurement, error] {
	q.Newest = true
	return s.reads(ctx, q, func(p *plan) { p.single = true }, (*reading).latestAll)
}

// latest yields the newest measurement of each series of a group.
func (r *reading) latest(ctx context.Context, g group) error {
	for _, g := range g.variants() {
		best, err := r.newest(ctx, g)
		if err == nil && best != nil {
			err = r.give(best)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newest finds the bucket, or the rows from segments, with the newest measurement of g. Its current measurement is that one. Nil
// means that there is none. It first asks for the bucket that begins last, which nearly always has the newest measurement in
// buckets. Then it asks for the buckets that end later or at the same time.
func (r *reading) newest(ctx context.Context, g group) (*held, error) {
	r.merge.clear()
	for _, h := range g.inSegments {
		r.merge.take(h)
	}
	buckets := r.asNew(g)
	buckets.request.limit = 1
	last, err := r.newestOf(ctx, buckets, g)
	if err == nil && last.Type != 0 {
		others := r.asNew(g)
		others.request.filter = append(others.request.filter, bson.E{Key: timeseries.FieldID, Value: bson.D{{Key: "$ne", Value: last}}})
		_, err = r.newestOf(ctx, others, g)
	}
	if err != nil || len(r.merge.heap) == 0 {
		return nil, err
	}
	return r.merge.heap[0], nil
}

// asNew scans the buckets that end no earlier than the newest known measurement.
func (r *reading) asNew(g group) *scan {
	rest := *r.plan
	if len(r.merge.heap) > 0 {
		rest.first = max(rest.first, r.merge.heap[0].current.Time)
	}
	return r.series.scan(&rest, g)
}

// newestOf reads the buckets that may have the newest measurement. It returns the _id of the last bucket it looked at. Type 0
// means that there was none.
func (r *reading) newestOf(ctx context.Context, buckets *scan, g group) (last bson.RawValue, err error) {
	defer buckets.close(ctx)
	for {
		ok, err := buckets.next(ctx)
		if !ok || err != nil {
			return last, err
		}
		last = timeseries.Clone(idOf(buckets.current))
		use, err := r.usable(buckets, g)
		switch {
		case err != nil:
			return last, err
		case !use:
			continue
		case r.merge.certain(buckets.begins):
			return last, nil
		}
		if err := r.merge.add(buckets.current); err != nil {
			if err := r.bad(buckets.current, err); err != nil {
				return last, err
			}
		}
	}
}

// latestAll yields the newest measurement of each series of groups. One request covers many groups where that is possible.
func (r *reading) latestAll(ctx context.Context, groups []group) error {
	for i := 0; i < len(groups); {
		n, err := r.latestNext(ctx, groups[i:])
		if err != nil {
			return err
		}
		clear(groups[i : i+n]) // frees their measurements
		i += n
	}
	return nil
}

// latestNext yields the newest measurements of the first groups, and returns the number of these groups.
func (r *reading) latestNext(ctx context.Context, groups []group) (int, error) {
	places := swept(groups, 0, r.plan.limit-r.given)
	if r.alone || len(places) < 2 || !r.series.port.skips() || !r.series.ordersMetas(ctx) {
		return 1, r.latest(ctx, groups[0])
	}
	n := places[len(places)-1] + 1
	batch := make([]candidate, 0, len(places))
	for _, i := range places {
		batch = append(batch, candidate{group: groups[i], place: i, bound: math.MinInt64})
	}
	err := persist(ctx, func() error { return r.findLatest(ctx, batch) })
	if refuses(err) {
		r.alone = true
		return 1, r.latest(ctx, groups[0])
	}
	if err != nil {
		return 0, err
	}
	for i, g := range groups[:n] {
		if len(batch) == 0 || batch[0].place != i {
			if err := r.latest(ctx, g); err != nil {
				return 0, err
			}
			continue
		}
		if err := r.giveLatest(ctx, &batch[0]); err != nil {
			return 0, err
		}
		batch = batch[1:]
	}
	return n, nil
}

// candidate is a group in a batch whose newest measurements are looked for together.
type candidate struct {
	group group
	place int
	// bound is a lower bound of the newest time: a known measurement, or the start of the last bucket. Only buckets that end at
	// or after it are read.
	bound int64
	known bool // The bound comes from a bucket or from segments.
	best  *held
	bad   []error // errors of its buckets that cannot be read
}

// findLatest looks for the newest measurements in buckets. One pass over the index tells where the last bucket of each group
// begins. Then it reads the buckets that end no earlier. One request covers the groups whose last buckets begin at about the same
// time.
func (r *reading) findLatest(ctx context.Context, batch []candidate) error {
	if err := r.boundLatest(ctx, batch); err != nil {
		return err
	}
	var known []*candidate
	for i := range batch {
		batch[i].best, batch[i].bad = nil, nil
		if batch[i].known {
			known = append(known, &batch[i])
		}
	}
	slices.SortFunc(known, func(a, b *candidate) int { return cmp.Compare(a.bound, b.bound) })
	for len(known) > 0 {
		n := 1
		for n < len(known) && known[n].bound <= saturate(known[0].bound, r.plan.span/2) {
			n++
		}
		some := known[:n:n]
		known = known[n:]
		if err := r.readLatest(ctx, some[0].bound, some); err != nil {
			return err
		}
	}
	return nil
}

// boundLatest sets the bounds. A bound is the newest time in segments, or else the start of the last bucket.
func (r *reading) boundLatest(ctx context.Context, batch []candidate) error {
	var metas bson.A
	for i := range batch {
		if at, ok := newestStaged(batch[i].group); ok {
			batch[i].bound, batch[i].known = at, true
			continue
		}
		metas = append(metas, batch[i].group.meta)
	}
	if len(metas) == 0 {
		return nil
	}
	answer, err := r.series.port.aggregate(ctx, r.series.lastBeginnings(r.plan, metas))
	return each(ctx, answer, err, func(d bson.Raw) error {
		begins, ok := d.Lookup(fieldBegins).DateTimeOK()
		if c := candidateOf(batch, idOf(d)); c != nil && ok {
			c.bound, c.known = max(begins, r.plan.first), true
		}
		return nil
	})
}

const fieldBegins = "begins"

// lastBeginnings is the pipeline that tells where the last bucket of each meta begins. MongoDB takes one key of each meta from
// the index. Any condition on a field outside the index would make MongoDB read every key. So the pipeline also counts buckets
// that are not shown yet, or that end too early.
func (s *Series) lastBeginnings(p *plan, metas bson.A) bson.A {
	filter := bson.D{anyOf(metas)}
	if begins := p.begins(); len(begins) > 0 {
		filter = append(filter, bson.E{Key: s.minPath(), Value: begins})
	}
	return bson.A{
		bson.D{{Key: "$match", Value: filter}},
		bson.D{{Key: "$sort", Value: bson.D{{Key: timeseries.FieldMeta, Value: -1}, {Key: s.minPath(), Value: -1}}}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: timeseries.FieldID, Value: "$" + timeseries.FieldMeta},
			{Key: fieldBegins, Value: bson.D{{Key: "$first", Value: "$" + s.minPath()}}},
		}}},
	}
}

// newestStaged returns the newest time of a group in segments. A group holds one such measurement of each partition. False means
// that it has none.
func newestStaged(g group) (newest int64, ok bool) {
	for _, h := range g.inSegments {
		for _, row := range h.rows {
			if !ok || row.time > newest {
				newest, ok = row.time, true
			}
		}
	}
	return newest, ok
}

// candidateOf returns the candidate of a meta. Nil means that there is none.
func candidateOf(batch []candidate, meta bson.RawValue) *candidate {
	i, found := slices.BinarySearchFunc(batch, group{meta: meta}, func(c candidate, g group) int { return c.group.compare(g) })
	if !found || !batch[i].group.takes(meta) {
		return nil
	}
	return &batch[i]
}

// readLatest reads the buckets of some candidates that end at or after a time, and keeps the newest measurement of each
// candidate.
func (r *reading) readLatest(ctx context.Context, from int64, some []*candidate) error {
	rest := *r.plan
	rest.first = max(rest.first, from)
	slices.SortFunc(some, func(a, b *candidate) int { return cmp.Compare(a.place, b.place) })
	metas, batch := make(bson.A, len(some)), make([]candidate, len(some))
	for i, c := range some {
		metas[i], batch[i] = c.group.meta, *c
	}
	q := request{filter: append(bson.D{anyOf(metas)}, r.series.shownFilter(&rest)...), projection: r.plan.projection, hint: r.series.options.SeriesIndex()}
	answer, err := r.series.port.find(ctx, q)
	err = each(ctx, answer, err, func(bucket bson.Raw) error {
		if c := candidateOf(batch, metaOf(bucket)); c != nil {
			if err := r.keepLatest(c, bucket); err != nil {
				c.bad = append(c.bad, newBucketError(r.series.namespace, bucket, err))
			}
		}
		return nil
	})
	for i, c := range some {
		*c = batch[i]
	}
	return err
}

// keepLatest keeps the newest measurement of a bucket unless the candidate has one that is at least as new.
func (r *reading) keepLatest(c *candidate, bucket bson.Raw) error {
	h := r.merge.spare()
	defer r.merge.release(h)
	if err := h.open(r.plan, bucket, 0); err != nil {
		return err
	}
	ok, err := h.next()
	if !ok || c.best != nil && h.compare(c.best) <= 0 {
		return err
	}
	c.best, err = r.detached(h)
	return err
}

// detached copies the current measurement of a bucket, in the form of measurements from segments.
func (r *reading) detached(h *held) (*held, error) {
	fields, err := r.plan.fields.trimmed(&r.trim, h.current.Fields)
	if err != nil {
		return nil, err
	}
	d := &held{plan: r.plan, sorted: true, source: h.source, current: h.current}
	d.current.Fields, d.current.Meta = bytes.Clone(fields), timeseries.Clone(h.current.Meta)
	return d, nil
}

// giveLatest yields a candidate's newest measurement. If the newest one found is older than the bound, latest reads the group on
// its own. Then its last bucket is not shown yet, cannot be read, or has only measurements of other times.
func (r *reading) giveLatest(ctx context.Context, c *candidate) error {
	if !c.known {
		return nil // It has no bucket, and nothing in segments.
	}
	at, inSegments := newestStaged(c.group)
	if !(inSegments && at >= c.bound) && !(c.best != nil && c.best.current.Time >= c.bound) {
		return r.latest(ctx, c.group)
	}
	for _, err := range c.bad {
		if !r.yield(Measurement{}, err) {
			return errEnough
		}
	}
	for _, h := range c.group.inSegments {
		if ok, _ := h.next(); ok && (c.best == nil || h.compare(c.best) > 0) {
			c.best = h
		}
	}
	return r.give(c.best)
}
