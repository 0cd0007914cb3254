package reader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries"
	"waterwheel/timeseries/rawbson"
)

// fake is a port on buckets in memory. It knows the operators that reading uses, and panics at others.
type fake struct {
	buckets    []bson.Raw
	partitions []bson.Raw
	fail       func() error // asked before each document and each request; nil: never
	sent       int          // buckets given out with their columns
	requests   []request
	explained  bson.Raw // the answer to explain
	options    timeseries.Options
	mu         sync.Mutex // over buckets, where a test changes them while it reads
}

func (f *fake) failing() error {
	if f.fail == nil {
		return nil
	}
	return f.fail()
}

func (f *fake) definition(context.Context) (bson.Raw, error) {
	return definitionOf(f.options), f.failing()
}

// definitionOf is the document that defines a time series; without options testOptions do.
func definitionOf(o timeseries.Options) bson.Raw {
	if o.TimeField == "" {
		o = testOptions
	}
	return encode(timeseries.Definition{ID: timeseries.DefinitionID, Version: 1, Options: o})
}

func (f *fake) find(_ context.Context, r request) (documents, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
	if err := f.failing(); err != nil {
		return nil, err
	}
	var found []bson.Raw
	for _, b := range f.buckets {
		if matches(b, r.filter) {
			found = append(found, b)
		}
	}
	if r.sort != nil {
		direction := r.sort[0].Value.(int)
		slices.SortStableFunc(found, func(a, b bson.Raw) int {
			return direction * timeseries.Compare(orNull(at(a, r.sort[0].Key)), orNull(at(b, r.sort[0].Key)))
		})
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
	if err := f.failing(); err != nil {
		return nil, err
	}
	filter := pipeline[0].(bson.D)[0].Value.(bson.D)
	var metas []bson.RawValue
	for _, b := range f.buckets {
		meta := orNull(metaOf(b))
		if matches(b, filter) && !slices.ContainsFunc(metas, func(v bson.RawValue) bool { return timeseries.Compare(v, meta) == 0 }) {
			metas = append(metas, meta)
		}
	}
	answer := &fakeAnswer{fake: f}
	for _, meta := range metas {
		answer.rest = append(answer.rest, encode(bson.D{{Key: "_id", Value: meta}}))
	}
	return answer, nil
}

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

// Next overwrites the document before, as a driver's cursor may.
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

// at is the value of a dotted path, Type 0 for none.
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
	if name == "$and" {
		for _, clause := range condition.(bson.A) {
			if !matches(document, clause.(bson.D)) {
				return false
			}
		}
		return true
	}
	v := at(document, name)
	if raw, ok := condition.(bson.RawValue); ok && isOperators(raw) {
		var d bson.D
		if err := raw.Unmarshal(&d); err != nil {
			panic(err)
		}
		condition = d
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

func compares(v bson.RawValue, operator string, operand any) bool {
	switch operator {
	case "$exists":
		return operand.(bool) == (v.Type != 0)
	case "$in":
		return slices.ContainsFunc(operand.(bson.A), func(o any) bool { return equals(v, valueOf(o)) })
	case "$eq":
		return equals(v, valueOf(operand))
	case "$ne":
		return !equals(v, valueOf(operand))
	}
	o := valueOf(operand)
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

// equals is MongoDB's equality: null also matches what is not there, and a value the arrays it is an element of.
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
