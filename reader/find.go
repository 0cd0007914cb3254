package reader

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Find yields the measurements that the query selects, series after series in the order of their metas. Within a series they come
// in the order of time, and those of equal time in the order of their positions.
//
// Measurements that are stored during the reading may or may not be among them.
func (s *Series) Find(ctx context.Context, q Query) iter.Seq2[Measurement, error] {
	return s.reads(ctx, q, func(*plan) {}, (*reading).findAll)
}

// reads returns an iterator that adapts the plan of a query, and runs read for the groups that the query selects.
func (s *Series) reads(
	ctx context.Context, q Query, adapt func(*plan), read func(*reading, context.Context, []group) error,
) iter.Seq2[Measurement, error] {
	return func(yield func(Measurement, error) bool) {
		p, err := s.prepare(ctx, q)
		if err != nil {
			yield(Measurement{}, err)
			return
		}
		adapt(&p)
		r := newReading(s, &p, yield)
		groups, err := s.groups(ctx, &p, r.bad)
		if err != nil {
			if !errors.Is(err, errEnough) {
				yield(Measurement{}, err)
			}
			return
		}
		if err := read(r, ctx, groups); err != nil && !errors.Is(err, errEnough) {
			yield(Measurement{}, s.reading(err))
		}
	}
}

// errEnough ends a reading whose caller wants no more measurements.
var errEnough = errors.New("enough")

// reading is one run of an iterator.
type reading struct {
	series *Series
	plan   *plan
	merge  merge
	yield  func(Measurement, error) bool
	given  int64
	m      Measurement
	trim   []byte
	alone  bool // The server rejects the request for the newest measurements of many groups.
}

func newReading(s *Series, p *plan, yield func(Measurement, error) bool) *reading {
	return &reading{series: s, plan: p, merge: merge{series: s, plan: p}, yield: yield, m: Measurement{options: &s.options}}
}

// findAll yields all measurements of groups.
func (r *reading) findAll(ctx context.Context, groups []group) error {
	w := &sweep{series: r.series, plan: r.plan, groups: groups}
	defer w.close(ctx)
	for i := range groups {
		if err := r.find(ctx, groups[i], w.part(ctx, i, r.plan.limit-r.given)); err != nil {
			return err
		}
		groups[i].inSegments = nil // frees the yielded measurements
	}
	return nil
}

// find yields all measurements of a group, series after series. swept has the group's buckets from a sweep. Nil means that find
// queries for them.
func (r *reading) find(ctx context.Context, g group, swept documents) error {
	var others []bson.RawValue // the other metas of the group, which need a pass of their own
	var done []bson.RawValue
	for {
		var want *bson.RawValue
		if len(others) > 0 {
			want, others = &others[0], others[1:]
		}
		pick := func(meta bson.RawValue) bool {
			if want == nil {
				first := timeseries.Clone(meta)
				want = &first
			}
			if meta.Equal(*want) {
				return true
			}
			if same := func(v bson.RawValue) bool { return v.Equal(meta) }; !slices.ContainsFunc(done, same) && !slices.ContainsFunc(others, same) {
				others = append(others, timeseries.Clone(meta))
			}
			return false
		}
		if err := r.one(ctx, g, swept, pick); err != nil {
			return err
		}
		swept = nil
		if len(others) == 0 {
			return nil
		}
		done = append(done, *want)
	}
}

// one yields the measurements of one series of a group, from its buckets and from segments. pick selects the series by meta.
func (r *reading) one(ctx context.Context, g group, swept documents, pick func(bson.RawValue) bool) error {
	for _, h := range g.inSegments {
		if pick(h.current.Meta) {
			r.merge.take(h)
		}
	}
	buckets := r.series.scan(r.plan, g)
	buckets.answer = swept
	defer buckets.close(ctx)
	more, err := r.pull(ctx, buckets, g, pick)
	if err != nil {
		return err
	}
	for {
		for more && !r.merge.certain(buckets.begins) {
			if err := r.merge.add(buckets.current); err != nil {
				if err := r.bad(buckets.current, err); err != nil {
					return err
				}
			}
			if more, err = r.pull(ctx, buckets, g, pick); err != nil {
				return err
			}
		}
		if len(r.merge.heap) == 0 {
			return nil
		}
		if err := r.give(r.merge.heap[0]); err != nil {
			return err
		}
		if bucket, err := r.merge.advance(); err != nil {
			if err := r.bad(bucket, err); err != nil {
				return err
			}
		}
	}
}

// pull goes to the next usable bucket whose meta is picked.
func (r *reading) pull(ctx context.Context, buckets *scan, g group, pick func(bson.RawValue) bool) (bool, error) {
	for {
		ok, err := buckets.next(ctx)
		if !ok || err != nil {
			return false, err
		}
		if use, err := r.usable(buckets, g); err != nil || use && pick(metaOf(buckets.current)) {
			return use, err
		}
	}
}

// usable reports whether the current bucket belongs to the group and has a minimum time. It tells the caller of a bucket without
// one.
func (r *reading) usable(buckets *scan, g group) (bool, error) {
	switch {
	case !g.takes(metaOf(buckets.current)):
		return false, nil
	case !buckets.timed:
		return false, r.bad(buckets.current, errors.New(r.series.minPath()+" is not a date"))
	}
	return true, nil
}

// give yields the current measurement of h.
func (r *reading) give(h *held) error {
	if r.given++; r.given > r.plan.limit {
		return errEnough
	}
	m := &r.m
	m.Time, m.Meta, m.Fields = time.UnixMilli(h.current.Time).UTC(), h.current.Meta, h.current.Fields
	m.Source, m.Position = h.source, h.current.Position
	if h.unpacker != nil { // measurements from segments are trimmed already
		var err error
		if m.Fields, err = r.plan.fields.trimmed(&r.trim, m.Fields); err != nil {
			return r.bad(h.bucket, err)
		}
	}
	if !r.yield(*m, nil) {
		return errEnough
	}
	if r.given == r.plan.limit {
		return errEnough
	}
	return nil
}

// bad yields the error of a bucket or a segment that cannot be read.
func (r *reading) bad(bucket bson.Raw, err error) error {
	if !r.yield(Measurement{}, newBucketError(r.series.namespace, bucket, err)) {
		return errEnough
	}
	return nil
}
