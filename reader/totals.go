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

// Aggregation is a statistic of the numbers that a field has in a window, such as the mean.
type Aggregation = rollup.Aggregation

// These are the aggregations. Count counts the numbers of a field. It also adds the number of measurements of the window.
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
	// Query selects measurements. Windows are whole. So From moves back to the beginning of its window, and To moves forward to
	// the end of its. Fields are the fields to total, or objects that hold such fields. Limit is the number of windows. Newest is
	// an error.
	Query
	// Every is the length of the windows.
	Every Step
	// Zone is the time zone in which days begin. Nil means UTC.
	Zone *time.Location
	// Aggregations are the statistics of each field. Nil means Mean.
	Aggregations []Aggregation
	// Exact reads only measurements, and no rows of rollups.
	Exact bool
}

// Window holds the totals of one window of one series. Its Meta and Fields are valid until the iterator's next step.
type Window struct {
	// Time is the beginning of the window, and End is its exclusive end. Both are in the zone of the query.
	Time, End time.Time
	// Meta is the identity of the series. Type 0 means that it has none.
	Meta bson.RawValue
	// Count is the number of measurements.
	Count int64
	// Fields is a document of the statistics: {celsius: {mean: 21.4, max: 24}}. With the aggregation Count, the number of
	// measurements comes first. Its name is count, or the name that the rollups use (ROLLUP_COUNT_FIELD). A field that had no
	// numbers is missing, and so is a field with the name of that column.
	Fields bson.Raw

	options *timeseries.Options
}

// Document returns the window as a new document in the form of stored rollups: time, meta, then the fields.
func (w Window) Document() bson.Raw {
	return Measurement{Time: w.Time, Meta: w.Meta, Fields: w.Fields, options: w.options}.Document()
}

// Totals yields the windows that hold selected measurements, series after series in the order of their metas. Within a series
// they come in the order of time. Windows of metas that differ only in the types of numbers (1 and 1.0) may be interleaved.
//
// If the time series has rollups, windows come from the coarsest level whose rows they consist of. Measurements that are not in
// its rows yet come from finer levels, or from the stored measurements. So Totals counts a measurement as soon as it is stored. A
// late measurement, whose window already has a row, is counted only after the next rollup pass. Exact counts it at once. Totals
// of windows whose measurements have expired come from rollups alone.
//
// NaN values are left out. A field that holds a Decimal128 has neither sum nor mean. Arrays are skipped.
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
	query        Query // the query of each piece, without its times
	windows      windows
	aggregations []Aggregation
	rules        *rollup.Rules
	pieces       []piece
	limit        int64
	yield        func(Window, error) bool

	open  []*opened // the current window of the current series, one for each meta if metas differ only in the types of numbers
	given int64
	out   []byte
}

// opened is a window of one series that is not complete yet.
type opened struct {
	meta     bson.RawValue
	from, to int64
	row      *rollup.Row
}

// totaling checks a query and divides it into pieces.
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
	rolled, err := s.rolled(ctx)
	if err != nil {
		return nil, s.reading(err)
	}
	if len(rolled) > 0 { // all levels have the same column of counts, and totals of measurements have it too
		t.rules.Count = rolled[0].Count
	}
	var levels []level
	if !q.Exact {
		if levels, err = s.levels(ctx, t, rolled); err != nil {
			return nil, s.reading(err)
		}
	}
	t.pieces = piecesOf(from, to, levels, piece{series: s})
	return t, nil
}

// check validates a query. It returns the bounds of its times in milliseconds. The end is exclusive.
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
		return 0, 0, errors.New("the query's Newest is not possible for totals, which are returned in the order of time")
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
		for _, s := range streams { // the streams have one series, in the order of time
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

// stream is the content of one piece, series after series in the order of their metas.
type stream struct {
	stored bool // It holds rows instead of measurements.
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

// advance goes to the next row or measurement of a stream. It yields the errors of buckets that cannot be read.
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

// nextGroup returns the smallest meta among the streams, which is the next series.
func nextGroup(streams []*stream) (meta bson.RawValue, ok bool) {
	for _, s := range streams {
		if s.more && (!ok || (group{meta: s.head.Meta}).compare(group{meta: meta}) < 0) {
			meta, ok = s.head.Meta, true
		}
	}
	if ok {
		meta = timeseries.Clone(meta)
	}
	return meta, ok
}

// add adds the current row or measurement of a stream to its window.
func (t *totaling) add(s *stream) error {
	ms := s.head.Time.UnixMilli()
	i := slices.IndexFunc(t.open, func(w *opened) bool { return w.meta.Equal(s.head.Meta) })
	if i < 0 {
		i = len(t.open)
		t.open = append(t.open, &opened{meta: timeseries.Clone(s.head.Meta), to: math.MinInt64, row: t.rules.NewRow(0)})
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

// give yields a complete window.
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

// wanted reports whether rows made by these rules have the fields of a query, and everything below them.
func wanted(names []string, rules *rollup.Rules) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !rules.Fields.Match(name) })
}
