package reader

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// scan reads the buckets of a request in the order of their minimum times, each once. After a failure of the server it continues
// where it was.
type scan struct {
	series  *Series
	request request // without its sort
	newest  bool

	answer documents // Nil means that no request is open.
	retry  retry

	current bson.Raw
	begins  int64           // the current bucket's control.min.<time>
	timed   bool            // whether the current bucket has that field
	last    int64           // the minimum time of the last bucket that had one
	started bool            // whether there was such a bucket
	beside  map[string]bool // the _ids of all buckets with that minimum time
	untimed map[string]bool // the _ids of all buckets without a minimum time
}

// next goes to the next bucket. False means that there are no more. The bucket is valid until the next call.
func (s *scan) next(ctx context.Context) (bool, error) {
	for {
		err := s.ask(ctx)
		for err == nil && s.answer.Next(ctx) {
			s.retry.progressed()
			if s.take(s.answer.Document()) {
				return true, nil
			}
		}
		if err == nil {
			err = s.answer.Err()
		}
		s.close(ctx)
		if err == nil {
			return false, nil
		}
		if err := s.retry.wait(ctx, err); err != nil {
			return false, err
		}
	}
}

// ask requests the rest of the buckets, unless an answer is open.
func (s *scan) ask(ctx context.Context) (err error) {
	if s.answer == nil {
		s.answer, err = s.series.port.find(ctx, s.rest())
	}
	return err
}

// rest is the request for the buckets that are not read yet.
func (s *scan) rest() request {
	r, direction, bound := s.request, 1, "$gte"
	if s.newest {
		direction, bound = -1, "$lte"
	}
	r.sort = bson.D{{Key: s.series.minPath(), Value: direction}}
	r.hint = s.series.options.SeriesIndex()
	if s.started {
		behind := bson.D{{Key: s.series.minPath(), Value: bson.D{{Key: bound, Value: bson.DateTime(s.last)}}}}
		r.filter = bson.D{{Key: "$and", Value: bson.A{r.filter, behind}}}
	}
	return r
}

// take records the scan's position. False means that the bucket came before.
func (s *scan) take(bucket bson.Raw) bool {
	s.current = bucket
	s.begins, s.timed = s.series.begins(bucket)
	key := timeseries.Key(idOf(bucket))
	if s.beside == nil {
		s.beside, s.untimed = map[string]bool{}, map[string]bool{}
	}
	came := s.untimed
	if s.timed {
		if !s.started || s.begins != s.last {
			clear(s.beside)
			s.started, s.last = true, s.begins
		}
		came = s.beside
	}
	known := came[key]
	came[key] = true
	return !known
}

func (s *scan) close(ctx context.Context) {
	if s.answer != nil {
		_ = s.answer.Close(context.WithoutCancel(ctx)) // The cursor is lost or no longer needed.
		s.answer = nil
	}
}

// begins returns a bucket's control.min.<time> in milliseconds. False means that it has none.
func (s *Series) begins(bucket bson.Raw) (int64, bool) {
	return bucket.Lookup(timeseries.FieldControl, timeseries.FieldMin, s.options.TimeField).DateTimeOK()
}

// idOf returns a bucket's _id. Type 0 means that none can be read.
func idOf(bucket bson.Raw) bson.RawValue { return bucket.Lookup(timeseries.FieldID) }

// metaOf returns a bucket's meta. Type 0 means that it has none.
func metaOf(bucket bson.Raw) bson.RawValue { return bucket.Lookup(timeseries.FieldMeta) }

// isSegment reports whether a document is a segment.
func isSegment(document bson.Raw) bool {
	return document.Lookup(timeseries.FieldControl, timeseries.FieldSegment).Type != 0
}

const (
	// sweptAtOnce is the largest number of groups in one request.
	sweptAtOnce = 1000
	// sweptBytes bounds the size of the metas in one request. MongoDB limits a command to 48 MB.
	sweptBytes = 4 << 20
)

// sweep reads the buckets of many groups with few requests. Each request asks for the next groups, in the order of the index: by
// group, then by time. A sweep holds one document in memory.
type sweep struct {
	series *Series
	plan   *plan
	groups []group

	answer documents // Nil means that no request is open.
	end    int       // The answer covers the groups before this index.
	ended  bool      // The answer has no more documents.
	ahead  bool      // The current document of the answer belongs to a group after the last one read.
	// refused reports that the server does not order metas as groups are ordered, or that it rejects such requests.
	refused bool
}

// sweeps reports whether a request for many metas can include the group's. Within $in, some values have another meaning. Null
// also finds missing metas, a regular expression is a pattern, and the index holds the elements of arrays.
func (g group) sweeps() bool {
	switch orNull(g.meta).Type {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return false
	}
	return !timeseries.HasOperators(g.meta)
}

// swept returns the indexes of groups that one request can include, from an index on. There are no more than most.
func swept(groups []group, from int, most int64) (places []int) {
	bytes := 0
	for i := from; i < len(groups) && int64(len(places)) < min(most, sweptAtOnce) && bytes < sweptBytes; i++ {
		if groups[i].sweeps() {
			places = append(places, i)
			bytes += len(groups[i].meta.Value)
		}
	}
	return places
}

// anyOf selects the buckets of any of the metas.
func anyOf(metas bson.A) bson.E {
	return bson.E{Key: timeseries.FieldMeta, Value: bson.D{{Key: "$in", Value: metas}}}
}

// sweepRequest requests the buckets of groups in their order.
func (s *Series) sweepRequest(p *plan, groups []group, places []int) request {
	metas := make(bson.A, 0, len(places))
	for _, i := range places {
		metas = append(metas, groups[i].meta)
	}
	return request{
		filter: append(bson.D{anyOf(metas)}, s.shownFilter(p)...), projection: p.projection,
		sort: s.options.SeriesIndex(), hint: s.options.SeriesIndex(),
	}
}

// part returns the documents of a group. Callers must ask for groups in their order. wanted bounds the groups that a new request
// includes. Nil means that the group must be read on its own.
func (w *sweep) part(ctx context.Context, place int, wanted int64) documents {
	if w.refused || w.plan.newest || !w.groups[place].sweeps() {
		return nil
	}
	if place >= w.end {
		w.close(ctx)
	}
	if w.answer == nil && !w.open(ctx, place, wanted) {
		return nil
	}
	return &part{sweep: w, group: w.groups[place]}
}

// open requests the groups from an index on. It returns false if they must be read on their own, for example if there is only
// one.
func (w *sweep) open(ctx context.Context, place int, wanted int64) bool {
	places := swept(w.groups, place, wanted)
	if len(places) < 2 {
		return false
	}
	if !w.series.ordersMetas(ctx) {
		w.refused = true
		return false
	}
	answer, err := w.series.port.find(ctx, w.series.sweepRequest(w.plan, w.groups, places))
	if err != nil {
		w.refused = !transient(err)
		return false
	}
	w.answer, w.end, w.ended, w.ahead = answer, places[len(places)-1]+1, false, false
	return true
}

func (w *sweep) close(ctx context.Context) {
	if w.answer != nil {
		_ = w.answer.Close(context.WithoutCancel(ctx)) // The cursor is lost or no longer needed.
		w.answer = nil
	}
}

// part is the documents of one group in a sweep. After a failure the next group opens a new request.
type part struct {
	sweep *sweep
	group group
	err   error
}

// errDisorder means that the server does not keep the order that ordersMetas saw.
var errDisorder = errors.New("the server did not return series in the order of their metas, perhaps because metas changed during the query: run the query again")

// Next implements documents.
func (p *part) Next(ctx context.Context) bool {
	w := p.sweep
	for w.answer != nil && !w.ended {
		if !w.ahead && !w.answer.Next(ctx) {
			w.ended = true
			if p.err = w.answer.Err(); p.err != nil {
				w.close(ctx)
			}
			return false
		}
		w.ahead = false
		meta := metaOf(w.answer.Document())
		if meta.Type == bson.TypeArray { // An array is found because it has a requested meta as an element.
			continue
		}
		switch c := p.group.compare(group{meta: meta}); {
		case c == 0:
			return true
		case c < 0:
			w.ahead = true
			return false
		}
		p.err = errDisorder
		return false
	}
	return false
}

// Document implements documents.
func (p *part) Document() bson.Raw { return p.sweep.answer.Document() }

// Err implements documents.
func (p *part) Err() error { return p.err }

// Close does nothing. The sweep stays open for the next group.
func (*part) Close(context.Context) error { return nil }
