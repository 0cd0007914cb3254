package reader

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries/rawbson"
)

// Find yields the measurements that the query selects: series after series in the order of their metas, within a series in the
// order of time, and of their positions where times are equal.
//
// What is stored while it reads may be among them or not.
func (s *Series) Find(ctx context.Context, q Query) iter.Seq2[Measurement, error] {
	return s.reads(ctx, q, (*reading).find)
}

// reads runs a way of reading for every group that a query selects.
func (s *Series) reads(ctx context.Context, q Query, read func(*reading, context.Context, group) error) iter.Seq2[Measurement, error] {
	return func(yield func(Measurement, error) bool) {
		p, err := s.prepare(ctx, q)
		if err != nil {
			yield(Measurement{}, err)
			return
		}
		groups, err := s.groups(ctx, &p)
		if err != nil {
			yield(Measurement{}, err)
			return
		}
		r := newReading(s, &p, yield)
		for _, g := range groups {
			if err = read(r, ctx, g); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Measurement{}, s.reading(err))
		}
	}
}

// errEnough ends a reading whose caller wants no more.
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
}

func newReading(s *Series, p *plan, yield func(Measurement, error) bool) *reading {
	return &reading{series: s, plan: p, merge: merge{series: s, plan: p}, yield: yield, m: Measurement{options: &s.options}}
}

// find gives all measurements of a group, series after series.
func (r *reading) find(ctx context.Context, g group) error {
	var others []bson.RawValue // met on the way, to be read on their own
	var done []bson.RawValue
	for {
		var want *bson.RawValue
		if len(others) > 0 {
			want, others = &others[0], others[1:]
		}
		pick := func(meta bson.RawValue) bool {
			if want == nil {
				first := cloned(meta)
				want = &first
			}
			if sameValue(meta, *want) {
				return true
			}
			if same := func(v bson.RawValue) bool { return sameValue(v, meta) }; !slices.ContainsFunc(done, same) && !slices.ContainsFunc(others, same) {
				others = append(others, cloned(meta))
			}
			return false
		}
		if err := r.one(ctx, g, pick); err != nil {
			return err
		}
		if len(others) == 0 {
			return nil
		}
		done = append(done, *want)
	}
}

// one gives the measurements of those buckets of a group whose meta is picked.
func (r *reading) one(ctx context.Context, g group, pick func(bson.RawValue) bool) error {
	buckets := r.series.scan(r.plan, g)
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

// pull goes to the next bucket that is picked and begins somewhere.
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

// usable tells whether the current bucket is of the group and begins somewhere.
func (r *reading) usable(buckets *scan, g group) (bool, error) {
	switch {
	case !g.takes(metaOf(buckets.current)):
		return false, nil
	case !buckets.timed:
		return false, r.bad(buckets.current, errors.New(r.series.minPath()+" is no date"))
	}
	return true, nil
}

// give yields the current measurement of a bucket.
func (r *reading) give(h *held) error {
	if r.given++; r.given > r.plan.limit {
		return errEnough
	}
	m := &r.m
	m.Time, m.Meta, m.Fields = time.UnixMilli(h.current.Time).UTC(), h.unpacker.Meta(), h.current.Fields
	m.Source, m.Position = h.source, h.current.Position
	if r.plan.fields.trims() {
		var ok bool
		r.trim, ok = r.plan.fields.appendTrimmed(append(r.trim[:0], 0, 0, 0, 0), rawbson.Content(m.Fields))
		if !ok {
			return r.bad(h.bucket, errors.New("it holds malformed BSON"))
		}
		m.Fields = rawbson.EndDocument(r.trim, 0)
		r.trim = m.Fields
	}
	if !r.yield(*m, nil) {
		return errEnough
	}
	if r.given == r.plan.limit {
		return errEnough
	}
	return nil
}

// bad tells the caller of a bucket that cannot be read.
func (r *reading) bad(bucket bson.Raw, err error) error {
	if !r.yield(Measurement{}, &BucketError{Namespace: r.series.namespace, ID: cloned(idOf(bucket)), Err: err}) {
		return errEnough
	}
	return nil
}
