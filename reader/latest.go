package reader

import (
	"context"
	"iter"

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
	for _, h := range g.staged {
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
		last = cloned(idOf(buckets.current))
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
