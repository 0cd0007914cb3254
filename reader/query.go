package reader

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Query selects measurements. The zero Query selects all.
type Query struct {
	// Meta is a filter on the meta in the words of a measurement, as for find() on the view: {"meta": "s-17"},
	// {"meta.sensor": "s-17"}, {"$or": […]}; anything that marshals to a document. Nil or empty means every series. Objects that are
	// compared with are brought into the order of names in which metas are stored. $expr may read the meta, by "$meta.sensor", and
	// nothing else of a measurement. An equality with a whole meta selects that meta,
	// not arrays that have it as an element.
	Meta any
	// From and To bound the times: From ≤ time < To. Zero means no bound.
	From, To time.Time
	// Fields are the fields to return, top-level or dotted ("wind.speed"). Nil means all. Time and meta always come.
	Fields []string
	// Limit is how many measurements to return, of all series together (of Series: how many metas). Zero means all.
	Limit int64
	// Newest returns the measurements of each series from the newest to the oldest. It holds the buckets of one span of time
	// in memory.
	Newest bool
}

// plan is a Query that was checked, in the words of buckets.
type plan struct {
	span        int64     // of a bucket at most, in milliseconds
	segments    bool      // there may be some
	now         time.Time // The documents shown at this moment of the server are read.
	meta        bson.D    // filter on buckets. Empty means all.
	whole       *bson.RawValue
	bounds      bounds // what the filter says of segments; empty where nothing is known
	first, last int64  // bounds of the times, in milliseconds, both inclusive
	projection  bson.D
	fields      *fields // Nil means all.
	limit       int64
	newest      bool
	single      bool // of each series in segments only the newest measurement is wanted
}

// prepare checks a query, and asks how the time series is now, and what the time is.
func (s *Series) prepare(ctx context.Context, q Query) (plan, error) {
	p, err := s.plan(q)
	if err != nil {
		return p, &QueryError{err}
	}
	if err = s.present(ctx, &p); err == nil && p.segments {
		err = s.askTime(ctx, &p)
		if b := s.segmentBounds(p.meta); len(b.all) > 0 && s.ordersMetas(ctx) {
			p.bounds = b
		}
	}
	if err != nil {
		return p, s.reading(err)
	}
	return p, nil
}

// askTime makes the present moment that of which the plan reads what is shown.
func (s *Series) askTime(ctx context.Context, p *plan) error {
	return persist(ctx, func() (err error) {
		p.now, err = s.port.now(ctx)
		return err
	})
}

func (s *Series) plan(q Query) (p plan, err error) {
	p = plan{first: math.MinInt64, last: math.MaxInt64, limit: math.MaxInt64, newest: q.Newest}
	if !q.From.IsZero() {
		p.first = ceilMilli(q.From)
	}
	if !q.To.IsZero() {
		p.last = ceilMilli(q.To) - 1
	}
	if !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From) {
		return p, fmt.Errorf("the query ends at %s, before it begins at %s: swap From and To", q.To.Format(time.RFC3339), q.From.Format(time.RFC3339))
	}
	if q.Limit < 0 {
		return p, fmt.Errorf("the query's Limit is %d: give the number of measurements, or 0 for all", q.Limit)
	}
	if q.Limit > 0 {
		p.limit = q.Limit
	}
	if p.fields, err = s.parseFields(q.Fields); err != nil {
		return p, err
	}
	p.projection = s.projection(p.fields)
	p.meta, p.whole, err = s.metaFilter(q.Meta)
	return p, err
}

// ceilMilli is the first millisecond that is not before t.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// parseFields checks the names of fields. Nil means all of them.
func (s *Series) parseFields(names []string) (*fields, error) {
	if names == nil {
		return nil, nil
	}
	f := &fields{}
	for _, name := range names {
		path := strings.Split(name, ".")
		if slices.ContainsFunc(path, func(n string) bool { return n == "" || n[0] == '$' || strings.IndexByte(n, 0) >= 0 }) {
			return nil, fmt.Errorf("the query's field %q cannot be a field: give names as measurements have them, such as celsius or wind.speed", name)
		}
		if path[0] != s.options.TimeField && (s.options.MetaField == "" || path[0] != s.options.MetaField) {
			f.add(path)
		}
	}
	return f, nil
}

// projection asks for the columns of these fields only. Nil asks for whole buckets.
func (s *Series) projection(f *fields) bson.D {
	if f == nil {
		return nil
	}
	p := bson.D{}
	for _, path := range []string{
		timeseries.FieldMeta, timeseries.PathVersion, timeseries.PathCount, timeseries.PathSource, s.minPath(), s.maxPath(),
		timeseries.DataPath(s.options.TimeField),
	} {
		p = append(p, bson.E{Key: path, Value: 1})
	}
	for _, child := range f.children {
		p = append(p, bson.E{Key: timeseries.DataPath(child.name), Value: 1})
	}
	return p
}

// withSegments is a projection of buckets that takes what segments have besides.
func (s *Series) withSegments(projection bson.D) bson.D {
	if projection == nil {
		return nil
	}
	p := append(slices.Clone(projection), bson.E{Key: timeseries.PathSegment, Value: 1}, bson.E{Key: timeseries.PathCompaction, Value: 1})
	if s.options.MetaField != "" {
		p = append(p, bson.E{Key: timeseries.DataPath(s.options.MetaField), Value: 1})
	}
	return p
}

// wantMetas leaves a plan that reads of segments which series have measurements in its times.
func (s *Series) wantMetas(p *plan) {
	p.single, p.fields = true, &fields{}
	p.projection = s.projection(p.fields)
}

// timeFilter selects buckets that may hold measurements of the plan's time. Where a bucket begins tells what it may hold, its
// _id does not: that has no room for times before 1970 or after 2106. Both bounds of a bucket are bounded on both sides, since an
// index begins with either.
func (s *Series) timeFilter(p *plan) bson.D {
	begins, ends := bson.D{}, bson.D{}
	if p.first > math.MinInt64 {
		begins = append(begins, bson.E{Key: "$gt", Value: bson.DateTime(saturate(p.first, -p.span))})
		ends = append(ends, bson.E{Key: "$gte", Value: bson.DateTime(p.first)})
	}
	if p.last < math.MaxInt64 {
		begins = append(begins, bson.E{Key: "$lte", Value: bson.DateTime(p.last)})
		ends = append(ends, bson.E{Key: "$lte", Value: bson.DateTime(saturate(p.last, p.span))})
	}
	if len(begins) == 0 {
		return bson.D{}
	}
	return bson.D{{Key: s.minPath(), Value: begins}, {Key: s.maxPath(), Value: ends}}
}

// idFilter bounds the _id of the buckets that timeFilter selects, where it can: the index on it serves a range of time of all series.
// An _id begins with the 31-bit seconds of where its bucket begins, and is larger for times that have no room there: before 1970 and after 2038.
func idFilter(p *plan) bson.D {
	least := saturate(p.first, -p.span)
	if p.first == math.MinInt64 || least < 0 || least/1000 > math.MaxInt32 {
		return nil
	}
	bounds := bson.D{{Key: "$gte", Value: beginOfIDs(least / 1000)}}
	if last := p.last / 1000; last < math.MaxInt32 {
		bounds = append(bounds, bson.E{Key: "$lt", Value: beginOfIDs(last + 1)})
	}
	return bson.D{{Key: timeseries.FieldID, Value: bounds}}
}

// beginOfIDs is the smallest _id of a bucket that begins in a second.
func beginOfIDs(second int64) (id bson.ObjectID) {
	binary.BigEndian.PutUint32(id[:4], uint32(second))
	return id
}

// saturate adds without overflow.
func saturate(ms, by int64) int64 {
	switch sum := ms + by; {
	case by > 0 && sum < ms:
		return math.MaxInt64
	case by < 0 && sum > ms:
		return math.MinInt64
	default:
		return sum
	}
}
