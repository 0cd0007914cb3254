package reader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// Query selects measurements. The zero Query selects all.
type Query struct {
	// Meta is a filter on the meta, written as for find() on the view: {"meta": "s-17"}, {"meta.sensor": "s-17"}, {"$or": […]}.
	// It may be anything that marshals to a document. Nil or empty means every series. The names in objects to compare with are
	// sorted into the order in which metas are stored. $expr may read the meta, by "$meta.sensor", but no other field of a
	// measurement. An equality with a whole meta selects that meta, but not arrays that have it as an element.
	Meta any
	// From and To bound the times: From ≤ time < To. Zero means no bound.
	From, To time.Time
	// Fields are the fields to return, top-level or dotted ("wind.speed"). Nil means all. Time and meta are always returned.
	Fields []string
	// Limit is the maximum number of measurements, over all series together. For Series it is the number of metas. Zero means
	// all.
	Limit int64
	// Newest returns the measurements of each series from the newest to the oldest. It holds all buckets within one bucket span
	// in memory.
	Newest bool
}

// plan is a checked Query, translated into conditions on buckets.
type plan struct {
	span        int64     // the longest span of a bucket, in milliseconds
	segments    bool      // the time series may have segments
	now         time.Time // the server time at which the plan reads what is shown
	meta        bson.D    // filter on buckets. Empty means all.
	whole       *bson.RawValue
	bounds      bounds // the conditions on segments from the filter on the meta; empty if nothing is known
	first, last int64  // bounds of the times, in milliseconds, both inclusive
	projection  bson.D
	fields      *fields // Nil means all.
	limit       int64
	newest      bool
	single      bool // only the newest measurement of each series in segments is wanted
}

// prepare checks a query. It then asks the server for the current definition of the time series and for the time.
func (s *Series) prepare(ctx context.Context, q Query) (plan, error) {
	p, err := s.plan(q)
	if err != nil {
		return p, &QueryError{err}
	}
	if err = s.present(ctx, &p); err == nil && p.segments {
		err = persist(ctx, func() (err error) {
			p.now, err = s.port.now(ctx)
			return err
		})
		if b := s.segmentBounds(p.meta, false); len(b.all) > 0 && s.ordersMetas(ctx) {
			p.bounds = s.segmentBounds(p.meta, s.comparesBits(ctx))
		}
	}
	if err != nil {
		return p, s.reading(err)
	}
	return p, nil
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

// parseFields checks the names of fields. Nil means all fields.
func (s *Series) parseFields(names []string) (*fields, error) {
	if names == nil {
		return nil, nil
	}
	f := &fields{}
	for _, name := range names {
		path := strings.Split(name, ".")
		if slices.ContainsFunc(path, func(n string) bool { return n == "" || n[0] == '$' || strings.IndexByte(n, 0) >= 0 }) {
			return nil, fmt.Errorf("the query's field %q is not a valid name of a field: give the names of fields of measurements, such as celsius or wind.speed", name)
		}
		if path[0] != s.options.TimeField && (s.options.MetaField == "" || path[0] != s.options.MetaField) {
			f.add(path)
		}
	}
	return f, nil
}

// projection asks only for the columns of these fields. Nil asks for whole buckets.
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

// withSegments extends a projection of buckets by the fields that only segments have.
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

// wantMetas restricts a plan to the question which series have measurements in its times.
func (s *Series) wantMetas(p *plan) {
	p.single, p.fields = true, &fields{}
	p.projection = s.projection(p.fields)
}

// timeFilter selects buckets that may hold measurements in the plan's times. It uses a bucket's minimum time, because the _id has
// no room for times before 1970 or after 2106. It bounds both control.min and control.max on both sides, because an index may
// begin with either.
func (s *Series) timeFilter(p *plan) bson.D {
	begins, ends := p.begins(), bson.D{}
	if len(begins) == 0 {
		return bson.D{}
	}
	if p.first > math.MinInt64 {
		ends = append(ends, bson.E{Key: "$gte", Value: bson.DateTime(p.first)})
	}
	if p.last < math.MaxInt64 {
		ends = append(ends, bson.E{Key: "$lte", Value: bson.DateTime(saturate(p.last, p.span))})
	}
	return bson.D{{Key: s.minPath(), Value: begins}, {Key: s.maxPath(), Value: ends}}
}

// begins bounds the minimum time of a bucket that may hold measurements in the plan's times. Empty means that nothing bounds it.
func (p *plan) begins() (begins bson.D) {
	if p.first > math.MinInt64 {
		begins = append(begins, bson.E{Key: "$gt", Value: bson.DateTime(saturate(p.first, -p.span))})
	}
	if p.last < math.MaxInt64 {
		begins = append(begins, bson.E{Key: "$lte", Value: bson.DateTime(p.last)})
	}
	return begins
}

// idFilter bounds the _id of the buckets that timeFilter selects, so that the index on it can serve a range of time over all
// series. An _id begins with the 31-bit seconds of its bucket's minimum time. It is larger for times outside that range, before
// 1970 or after 2038. Nil means that no bound is possible.
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

// beginOfIDs returns the smallest _id of a bucket that begins in a second.
func beginOfIDs(second int64) (id bson.ObjectID) {
	binary.BigEndian.PutUint32(id[:4], uint32(second))
	return id
}

// saturate adds, and returns the largest or the smallest value on overflow.
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

// fields is a tree of the names to return. A node that is whole returns everything below it.
type fields struct {
	name     string
	children []*fields
	whole    bool
}

// add adds a path. If a shorter path is there already, it covers the new one.
func (f *fields) add(path []string) {
	for _, name := range path {
		if f.whole {
			return
		}
		child := f.child([]byte(name))
		if child == nil {
			child = &fields{name: name}
			f.children = append(f.children, child)
		}
		f = child
	}
	f.whole, f.children = true, nil
}

func (f *fields) child(name []byte) *fields {
	for _, c := range f.children {
		if c.name == string(name) {
			return c
		}
	}
	return nil
}

// errMalformed means that a stored document is not valid BSON.
var errMalformed = errors.New("it holds malformed BSON")

// trimmed returns a document with only the elements that the fields name. If no path is dotted, the server has returned exactly
// these. Otherwise trimmed uses the memory of buffer.
func (f *fields) trimmed(buffer *[]byte, document bson.Raw) (bson.Raw, error) {
	if f == nil || !slices.ContainsFunc(f.children, func(c *fields) bool { return !c.whole }) {
		return document, nil
	}
	dst, ok := f.appendTrimmed(append((*buffer)[:0], 0, 0, 0, 0), rawbson.Content(document))
	if !ok {
		return nil, errMalformed
	}
	*buffer = rawbson.EndDocument(dst, 0)
	return *buffer, nil
}

// appendTrimmed appends the elements that the fields name, as a projection of MongoDB does. Objects and arrays on the way are
// kept even if they become empty. Plain values on the way are not kept. False means that the elements are malformed.
func (f *fields) appendTrimmed(dst, elements []byte) ([]byte, bool) {
	for len(elements) > 0 {
		e, rest, ok := rawbson.Read(elements)
		if !ok {
			return dst, false
		}
		switch c := f.child(e.Name); {
		case c == nil:
		case c.whole:
			dst = rawbson.AppendElement(dst, e.Kind, e.Name, e.Value)
		case rawbson.IsNested(e.Kind):
			if dst, ok = c.appendNested(rawbson.AppendHeader(dst, e.Kind, e.Name), e); !ok {
				return dst, false
			}
		}
		elements = rest
	}
	return dst, true
}

// appendNested appends a trimmed object or array.
func (f *fields) appendNested(dst []byte, nested rawbson.Element) (_ []byte, ok bool) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if nested.Kind == bson.TypeArray {
		dst, ok = f.appendItems(dst, rawbson.Content(nested.Value))
	} else {
		dst, ok = f.appendTrimmed(dst, rawbson.Content(nested.Value))
	}
	return rawbson.EndDocument(dst, start), ok
}

// appendItems appends the objects and arrays of an array, trimmed.
func (f *fields) appendItems(dst, list []byte) ([]byte, bool) {
	for n := 0; len(list) > 0; {
		e, rest, ok := rawbson.Read(list)
		if !ok {
			return dst, false
		}
		if list = rest; !rawbson.IsNested(e.Kind) {
			continue
		}
		if dst, ok = f.appendNested(rawbson.AppendIndexHeader(dst, e.Kind, n), e); !ok {
			return dst, false
		}
		n++
	}
	return dst, true
}
