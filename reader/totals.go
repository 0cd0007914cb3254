package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/rollup"
	"waterwheel/internal/timeseries"
)

// Aggregation is one figure of the numbers that a field has in a window.
type Aggregation = rollup.Aggregation

// The aggregations. Count counts the numbers of a field, and the measurements of the window.
const (
	Mean  = rollup.Mean
	Max   = rollup.Max
	Min   = rollup.Min
	Sum   = rollup.Sum
	Count = rollup.Count
	First = rollup.First
	Last  = rollup.Last
)

// TotalsQuery asks for totals of measurements by windows of time.
type TotalsQuery struct {
	// Query selects measurements. Windows are whole: From is moved back to the beginning of its window, and To on to the end of its.
	// Fields are the fields that are totalled, or objects that hold such fields. Limit is the number of windows. Newest is not possible.
	Query
	// Every is the length of the windows.
	Every Step
	// Zone is where days begin. Nil means UTC.
	Zone *time.Location
	// Aggregations are the figures of each field. Nil means Mean.
	Aggregations []Aggregation
	// Exact reads measurements only, and no rollups.
	Exact bool
}

// Window is what one window of one series has. Its Meta and Fields are valid until the iterator's next step.
type Window struct {
	// Time is the beginning of the window and End its end, which is not part of it. Both are in the zone of the query.
	Time, End time.Time
	// Meta is the identity of the series; Type 0 means that it has none.
	Meta bson.RawValue
	// Count is the number of measurements.
	Count int64
	// Fields is a document of the figures: {celsius: {mean: 21.4, max: 24}}. With Count, the number of measurements comes first, as count
	// or by the name that the rollups give it (ROLLUP_COUNT_FIELD). A field that had no numbers is missing.
	Fields bson.Raw

	options *timeseries.Options
}

// Document returns the window as a document of its own bytes, as rollups are stored: time, meta, then the fields.
func (w Window) Document() bson.Raw {
	return Measurement{Time: w.Time, Meta: w.Meta, Fields: w.Fields, options: w.options}.Document()
}

// Totals yields the windows that hold measurements which the query selects, series after series in the order of their metas, within a
// series in the order of time. Metas that differ only in the types of numbers (1 and 1.0) may come by turns.
//
// Where the time series has rollups, windows come from the coarsest level whose rows they consist of. Measurements that are not in
// rows yet come from finer levels, and the rest from measurements. So measurements are counted as they come. A measurement that is
// late, with a time for which rows stand already, is counted after the next pass over the rollups; Exact counts it at once. Totals of
// windows whose measurements have expired come from rollups alone.
//
// A NaN is left out. A field that holds a Decimal128 has neither sum nor mean. Arrays are not entered.
func (s *Series) Totals(ctx context.Context, q TotalsQuery) iter.Seq2[Window, error] {
	return func(yield func(Window, error) bool) {
		t, err := s.totaling(ctx, q, yield)
		if err != nil {
			yield(Window{}, err)
			return
		}
		if err := t.run(ctx); err != nil && !errors.Is(err, errEnough) {
			yield(Window{}, err)
		}
	}
}

// totaling is one run of Totals.
type totaling struct {
	series       *Series
	query        Query // of all pieces, without its times
	windows      windows
	aggregations []Aggregation
	rules        *rollup.Rules
	pieces       []piece
	limit        int64
	yield        func(Window, error) bool

	open  []*opened // the windows of the present series; of several where metas differ only in the types of numbers
	given int64
	out   []byte
}

// opened is a window of one series to which more may come.
type opened struct {
	meta     bson.RawValue
	from, to int64
	row      *rollup.Row
}

// totaling checks a query and decides where its windows are read.
func (s *Series) totaling(ctx context.Context, q TotalsQuery, yield func(Window, error) bool) (*totaling, error) {
	from, to, err := q.check(s)
	if err != nil {
		return nil, &QueryError{err}
	}
	t := &totaling{
		series: s, query: q.Query, aggregations: q.Aggregations, windows: windows{q.Every, q.Zone}, rules: &rollup.Rules{},
		limit: math.MaxInt64, yield: yield,
	}
	if t.windows.zone == nil {
		t.windows.zone = time.UTC
	}
	if len(t.aggregations) == 0 {
		t.aggregations = []Aggregation{Mean}
	}
	if q.Limit > 0 {
		t.limit, t.query.Limit = q.Limit, 0
	}
	if from > math.MinInt64 {
		from, _ = t.windows.of(from)
	}
	if to < math.MaxInt64 {
		_, to = t.windows.of(to - 1)
	}
	var levels []level
	if !q.Exact {
		if levels, err = s.levels(ctx, t); err != nil {
			return nil, s.reading(err)
		}
	}
	t.pieces = piecesOf(from, to, levels, piece{series: s})
	return t, nil
}

// check explains what is wrong with a query. The times are its bounds, in milliseconds; the end is not part of it.
func (q *TotalsQuery) check(s *Series) (from, to int64, err error) {
	p, err := s.plan(q.Query)
	if err != nil {
		return 0, 0, err
	}
	if err := q.Every.Check(); err != nil {
		return 0, 0, fmt.Errorf("the query's Every: %w", err)
	}
	for _, a := range q.Aggregations {
		if err := a.Check(); err != nil {
			return 0, 0, fmt.Errorf("the query's Aggregations %w", err)
		}
	}
	if q.Newest {
		return 0, 0, errors.New("the query's Newest is not possible for totals: they come in the order of time")
	}
	return p.first, saturate(p.last, 1), nil
}

// run reads all pieces, series after series.
func (t *totaling) run(ctx context.Context) error {
	streams := make([]*stream, 0, len(t.pieces))
	defer func() {
		for _, s := range streams {
			s.stop()
		}
	}()
	for _, p := range t.pieces {
		s := t.stream(ctx, p)
		streams = append(streams, s)
		if err := t.advance(s); err != nil {
			return err
		}
	}
	for {
		meta, ok := nextGroup(streams)
		if !ok {
			return nil
		}
		for _, s := range streams { // of one series, in the order of time
			for s.more && (group{meta: s.head.Meta}).compare(group{meta: meta}) == 0 {
				if err := t.add(s); err != nil {
					return err
				}
				if err := t.advance(s); err != nil {
					return err
				}
			}
		}
		for _, w := range t.open {
			if err := t.give(w); err != nil {
				return err
			}
		}
		t.open = t.open[:0]
	}
}

// stream is what one piece has, series after series in the order of their metas.
type stream struct {
	stored bool // It has rows instead of measurements.
	next   func() (Measurement, error, bool)
	stop   func()
	head   Measurement
	more   bool
}

func (t *totaling) stream(ctx context.Context, p piece) *stream {
	q := t.query
	q.From, q.To = time.Time{}, time.Time{}
	if p.from > math.MinInt64 {
		q.From = time.UnixMilli(p.from)
	}
	if p.to < math.MaxInt64 {
		q.To = time.UnixMilli(p.to)
	}
	if p.stored && q.Fields != nil {
		q.Fields = append(slices.Clone(q.Fields), t.rules.CountField())
	}
	s := &stream{stored: p.stored}
	s.next, s.stop = iter.Pull2(p.series.Find(ctx, q))
	return s
}

// advance goes to the next row or measurement of a stream. The caller is told of what cannot be read.
func (t *totaling) advance(s *stream) error {
	for {
		var err error
		s.head, err, s.more = s.next()
		if err == nil || !s.more {
			return nil
		}
		if _, ok := errors.AsType[*BucketError](err); !ok {
			return err
		}
		if !t.yield(Window{}, err) {
			return errEnough
		}
	}
}

// nextGroup is the meta of the series that comes next.
func nextGroup(streams []*stream) (meta bson.RawValue, ok bool) {
	for _, s := range streams {
		if s.more && (!ok || (group{meta: s.head.Meta}).compare(group{meta: meta}) < 0) {
			meta, ok = s.head.Meta, true
		}
	}
	if ok {
		meta = cloned(meta)
	}
	return meta, ok
}

// add puts the row or measurement of a stream into its window.
func (t *totaling) add(s *stream) error {
	ms := s.head.Time.UnixMilli()
	i := slices.IndexFunc(t.open, func(w *opened) bool { return sameValue(w.meta, s.head.Meta) })
	if i < 0 {
		i = len(t.open)
		t.open = append(t.open, &opened{meta: cloned(s.head.Meta), to: math.MinInt64, row: t.rules.NewRow(0)})
	}
	w := t.open[i]
	if ms >= w.to {
		if err := t.give(w); err != nil {
			return err
		}
		w.from, w.to = t.windows.of(ms)
		w.row.Reset(w.from)
	}
	if s.stored {
		w.row.Fold(s.head.Fields)
	} else {
		w.row.Add(s.head.Fields)
	}
	return nil
}

// give yields a window that is complete.
func (t *totaling) give(w *opened) error {
	if w.row.Count == 0 {
		return nil
	}
	if t.given == t.limit {
		return errEnough
	}
	t.given++
	t.out = w.row.AppendAggregations(t.out[:0], t.aggregations)
	one := Window{
		Time: time.UnixMilli(w.from).In(t.windows.zone), End: time.UnixMilli(w.to).In(t.windows.zone),
		Meta: w.meta, Count: w.row.Count, Fields: bson.Raw(t.out), options: &t.series.options,
	}
	if !t.yield(one, nil) || t.given == t.limit {
		return errEnough
	}
	return nil
}

// wanted reports whether rows that are made by rules have the fields of a query.
func wanted(names []string, rules *rollup.Rules) bool {
	for _, name := range names {
		within := name + ".*" // the fields below an object; a pattern takes in a text with stars as it does any other
		if !rules.Fields.Match(name) && !rules.Fields.Match(within) {
			return false
		}
	}
	return true
}
