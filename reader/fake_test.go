package reader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// fake is a port with buckets in memory. It supports the operators that reading uses, and panics for others.
type fake struct {
	buckets    []bson.Raw
	partitions []bson.Raw
	fail       func() error // called before each document and each request. Nil means no failures.
	before     func()       // called before each request. Nil means nothing.
	sent       int          // number of buckets sent with their columns
	requests   []request
	explained  bson.Raw // the answer to explain
	rolled     bson.Raw // the document that lists the rollups. Nil means that there are none.
	options    timeseries.Options
	segments   bool // the definition says that there are segments
	clock      time.Time
	asked      int                 // number of requests for the time
	plain      bool                // it lacks the stage that unpacks segments
	disorder   bool                // it sorts metas in reverse order
	bitless    bool                // it lacks conditions on bits
	sharded    bool                // it acts as a router of a sharded cluster
	refuse     func(request) error // error of a request. Nil means that no request is refused.
	failMu     sync.Mutex          // makes calls of fail follow each other
	mu         sync.Mutex          // guards buckets, which a test may change during a read, and the counts
}

func (f *fake) failing() error {
	if f.fail == nil {
		return nil
	}
	f.failMu.Lock()
	defer f.failMu.Unlock()
	return f.fail()
}

func (f *fake) definition(context.Context) (bson.Raw, error) {
	d := definitionOf(f.options)
	if f.segments {
		more := append(slices.Clone(d[:len(d)-1]), rawbson.Content(encode(bson.D{{Key: "segments", Value: true}}))...)
		d = rawbson.EndDocument(more, 0)
	}
	return d, f.failing()
}

func (f *fake) rollups(context.Context) (bson.Raw, error) { return f.rolled, f.failing() }

// now is requested once per read.
func (f *fake) now(context.Context) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.clock, f.failing()
}

// definitionOf returns the document that defines a time series. The default is testOptions.
func definitionOf(o timeseries.Options) bson.Raw {
	if o.TimeField == "" {
		o = testOptions
	}
	return encode(timeseries.Definition{ID: timeseries.DefinitionID, Version: 1, Options: o})
}

func (f *fake) find(_ context.Context, r request) (documents, error) {
	if f.before != nil {
		f.before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	if f.refuse != nil {
		if err := f.refuse(r); err != nil {
			return nil, err
		}
	}
	if err := f.failing(); err != nil {
		return nil, err
	}
	var found []bson.Raw
	if f.bitless && strings.Contains(fmt.Sprint(r.filter), bitsClear) {
		panic("the fake lacks conditions on bits")
	}
	for _, b := range f.buckets {
		if matches(b, r.filter) {
			found = append(found, b)
		}
	}
	if r.sort != nil {
		f.sorts(found, r.sort)
	}
	if r.limit > 0 {
		found = found[:min(len(found), int(r.limit))]
	}
	answer := &fakeAnswer{fake: f, rest: found, whole: r.projection == nil}
	if r.projection != nil {
		tree := &fields{}
		for _, e := range append(bson.D{{Key: "_id"}}, r.projection...) {
			tree.add(strings.Split(e.Key, "."))
			answer.whole = answer.whole || strings.HasPrefix(e.Key, "data.")
		}
		for i, b := range answer.rest {
			trimmed, _ := tree.appendTrimmed(make([]byte, 4), rawbson.Content(b))
			answer.rest[i] = rawbson.EndDocument(trimmed, 0)
		}
	}
	return answer, nil
}

func (f *fake) aggregate(_ context.Context, pipeline bson.A) (documents, error) {
	if f.before != nil {
		f.before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failing(); err != nil {
		return nil, err
	}
	if f.bitless && strings.Contains(fmt.Sprint(pipeline), bitsClear) {
		return nil, mongo.CommandError{Code: codeNotImplemented, Name: "NotImplemented", Message: "no such condition"}
	}
	all := slices.Clone(f.buckets)
	for _, stage := range pipeline {
		name, operand := stage.(bson.D)[0].Key, stage.(bson.D)[0].Value
		switch {
		case name == "$match":
			all = slices.DeleteFunc(all, func(d bson.Raw) bool { return !matches(d, operand.(bson.D)) })
		case f.plain && (name == "$unwind" || name == "$project"):
			return nil, mongo.CommandError{Code: codeNotImplemented, Name: "NotImplemented", Message: "no such stage"}
		case name == "$project":
			if e := operand.(bson.D)[0]; e.Value == 1 {
				all = only(all, e.Key)
			} else {
				all = projected(all, e.Key, e.Value)
			}
		case name == "$unwind":
			all = unwound(all, strings.TrimPrefix(operand.(string), "$"))
		case name == "$limit":
			all = all[:min(len(all), operand.(int))]
		case name == "$sort":
			f.sorts(all, operand.(bson.D))
		case name == "$group":
			all = grouped(all, operand.(bson.D))
		default:
			panic("the fake does not know " + name)
		}
	}
	return &fakeAnswer{fake: f, rest: all}, nil
}

// only returns documents with only one field.
func only(all []bson.Raw, name string) (documents []bson.Raw) {
	for _, d := range all {
		documents = append(documents, encode(bson.D{{Key: name, Value: at(d, name)}}))
	}
	return documents
}

// projected sets the field name to a value, which is that of a path, or the fields of an object as an array.
func projected(all []bson.Raw, name string, value any) (documents []bson.Raw) {
	for _, d := range all {
		if o, ok := value.(bson.D); ok && o[0].Key == "$literal" {
			documents = append(documents, encode(bson.D{{Key: name, Value: o[0].Value}}))
			continue
		}
		if path, ok := value.(string); ok {
			if v := at(d, path[1:]); v.Type != 0 {
				documents = append(documents, encode(bson.D{{Key: name, Value: v}}))
			}
			continue
		}
		list := bson.A{}
		for key, v := range members(at(d, value.(bson.D)[0].Value.(string)[1:]).Document()) {
			list = append(list, bson.D{{Key: "k", Value: key}, {Key: "v", Value: v}})
		}
		documents = append(documents, encode(bson.D{{Key: name, Value: list}}))
	}
	return documents
}

func unwound(all []bson.Raw, path string) (documents []bson.Raw) {
	for _, d := range all {
		for _, v := range members(bson.Raw(at(d, path).Array())) {
			documents = append(documents, encode(bson.D{{Key: path, Value: v}}))
		}
	}
	return documents
}

// sorts sorts documents.
func (f *fake) sorts(all []bson.Raw, order bson.D) {
	slices.SortStableFunc(all, func(a, b bson.Raw) int {
		for _, e := range order {
			if c := timeseries.Compare(orNull(at(a, e.Key)), orNull(at(b, e.Key))); c != 0 {
				if f.disorder && e.Key == timeseries.FieldMeta {
					c = -c
				}
				return e.Value.(int) * c
			}
		}
		return 0
	})
}

// grouped returns a document for each value of _id, with the first value of another path if the group has one.
func grouped(all []bson.Raw, group bson.D) (documents []bson.Raw) {
	path := strings.TrimPrefix(group[0].Value.(string), "$")
	var ids []bson.RawValue
	for _, d := range all {
		v := orNull(at(d, path))
		if !slices.ContainsFunc(ids, func(id bson.RawValue) bool { return timeseries.Compare(id, v) == 0 }) {
			ids = append(ids, v)
			one := bson.D{{Key: "_id", Value: v}}
			for _, e := range group[1:] {
				one = append(one, bson.E{Key: e.Key, Value: at(d, e.Value.(bson.D)[0].Value.(string)[1:])})
			}
			documents = append(documents, encode(one))
		}
	}
	return documents
}

func (f *fake) skips() bool { return !f.sharded }

func (f *fake) explainFind(context.Context, request) (bson.Raw, error) { return f.explained, nil }

func (f *fake) explainAggregate(context.Context, bson.A) (bson.Raw, error) { return f.explained, nil }

func (f *fake) sources(context.Context) (documents, error) {
	if err := f.failing(); err != nil {
		return nil, err
	}
	return &fakeAnswer{fake: f, rest: slices.Clone(f.partitions)}, nil
}

type fakeAnswer struct {
	fake    *fake
	rest    []bson.Raw
	whole   bool
	current bson.Raw
	err     error
}

// Next overwrites the previous document, as a driver's cursor may do.
func (a *fakeAnswer) Next(context.Context) bool {
	for i := range a.current {
		a.current[i] = 0xee
	}
	if a.err = a.fake.failing(); a.err != nil || len(a.rest) == 0 {
		a.current = nil
		return false
	}
	a.current, a.rest = slices.Clone(a.rest[0]), a.rest[1:]
	if a.whole {
		a.fake.sent++
	}
	return true
}

func (a *fakeAnswer) Document() bson.Raw          { return a.current }
func (a *fakeAnswer) Err() error                  { return a.err }
func (a *fakeAnswer) Close(context.Context) error { return nil }

func encode(v any) bson.Raw {
	raw, err := bson.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// at returns the value of a dotted path. Type 0 means none.
func at(document bson.Raw, path string) bson.RawValue {
	v, err := document.LookupErr(strings.Split(path, ".")...)
	if err != nil {
		return bson.RawValue{}
	}
	return v
}

func matches(document bson.Raw, filter bson.D) bool {
	for _, e := range filter {
		if !matchesOne(document, e.Key, e.Value) {
			return false
		}
	}
	return true
}

func matchesOne(document bson.Raw, name string, condition any) bool {
	if name == "$and" || name == "$or" {
		is := func(clause any) bool { return matches(document, filterOf(clause)) }
		if name == "$or" {
			return slices.ContainsFunc(clausesOf(condition), is)
		}
		return !slices.ContainsFunc(clausesOf(condition), func(clause any) bool { return !is(clause) })
	}
	v := at(document, name)
	if raw, ok := condition.(bson.RawValue); ok && timeseries.HasOperators(raw) {
		condition = filterOf(raw)
	}
	operators, ok := condition.(bson.D)
	if !ok || len(operators) == 0 || !strings.HasPrefix(operators[0].Key, "$") {
		return equals(v, valueOf(condition))
	}
	for _, o := range operators {
		if !compares(v, o.Key, o.Value) {
			return false
		}
	}
	return true
}

// filterOf and clausesOf return a filter or several filters in one form.
func filterOf(v any) (d bson.D) {
	if raw, ok := v.(bson.RawValue); ok {
		if err := raw.Unmarshal(&d); err != nil {
			panic(err)
		}
		return d
	}
	return v.(bson.D)
}

func clausesOf(v any) (a bson.A) {
	if raw, ok := v.(bson.RawValue); ok {
		if err := raw.Unmarshal(&a); err != nil {
			panic(err)
		}
		return a
	}
	return v.(bson.A)
}

// bitsClear is a condition that some servers lack.
const bitsClear = "$bitsAnyClear"

func compares(v bson.RawValue, operator string, operand any) bool {
	switch operator {
	case "$not":
		return slices.ContainsFunc(operand.(bson.D), func(o bson.E) bool { return !compares(v, o.Key, o.Value) })
	case "$type":
		return v.Type.String() == map[string]string{"object": "embedded document", "array": "array", "null": "null"}[operand.(string)]
	case "$exists":
		return operand.(bool) == (v.Type != 0)
	case "$in":
		return slices.ContainsFunc(operand.(bson.A), func(o any) bool { return equals(v, valueOf(o)) })
	case "$eq":
		return equals(v, valueOf(operand))
	case "$ne":
		return !equals(v, valueOf(operand))
	case bitsClear:
		_, bytes, ok := v.BinaryOK()
		return ok && slices.ContainsFunc(operand.([]int32), func(bit int32) bool {
			return int(bit/8) >= len(bytes) || bytes[bit/8]>>(bit%8)&1 == 0
		})
	}
	o := valueOf(operand)
	if v.Type == bson.TypeArray && o.Type != bson.TypeArray {
		values, _ := v.Array().Values()
		return slices.ContainsFunc(values, func(e bson.RawValue) bool { return compares(e, operator, operand) })
	}
	if isNaN(v) || isNaN(o) {
		return isNaN(v) && isNaN(o) && strings.HasSuffix(operator, "e")
	}
	if timeseries.CanonicalType(v.Type) != timeseries.CanonicalType(o.Type) {
		return false
	}
	c := timeseries.Compare(v, o)
	switch operator {
	case "$gt":
		return c > 0
	case "$gte":
		return c >= 0
	case "$lt":
		return c < 0
	case "$lte":
		return c <= 0
	}
	panic(fmt.Sprintf("the fake does not know %s", operator))
}

func isNaN(v bson.RawValue) bool {
	n, ok := v.AsFloat64OK()
	return ok && n != n
}

// equals is MongoDB's equality. null also matches a missing field, and a value matches arrays that contain it.
func equals(v, with bson.RawValue) bool {
	if timeseries.Compare(orNull(v), orNull(with)) == 0 {
		return true
	}
	if v.Type != bson.TypeArray {
		return false
	}
	values, _ := v.Array().Values()
	return slices.ContainsFunc(values, func(e bson.RawValue) bool { return timeseries.Compare(e, with) == 0 })
}

func valueOf(v any) bson.RawValue {
	if raw, ok := v.(bson.RawValue); ok {
		return raw
	}
	kind, value, err := bson.MarshalValue(v)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: kind, Value: value}
}
