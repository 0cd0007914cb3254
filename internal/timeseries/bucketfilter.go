package timeseries

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// BucketFilter translates a filter on measurements to a filter on buckets. The filter on buckets finds every bucket with a
// matching measurement, and perhaps others. It translates conditions on the meta as BucketQuery does. Conditions on the time
// become bounds of the times that a bucket holds. Conditions on other fields are left out. The error is an *Error.
func (o Options) BucketFilter(filter bson.Raw) (bson.Raw, error) {
	clauses := clauseList{newBuilder(), 0}
	if err := o.addClauses(&clauses, filter, 0); err != nil {
		return nil, err
	}
	all := newBuilder()
	if clauses.n > 0 {
		all.add("$and", bson.RawValue{Type: bson.TypeArray, Value: clauses.document()})
	}
	return all.document(), nil
}

// clauseList is an array of filters.
type clauseList struct {
	*builder
	n int
}

// addFilter adds the filter {path: v}.
func (l *clauseList) addFilter(path string, v bson.RawValue) {
	one := newBuilder()
	one.add(path, v)
	l.add(strconv.Itoa(l.n), objectValue(one.document()))
	l.n++
}

// addBound adds the filter {path: {operator: v}}.
func (l *clauseList) addBound(path, operator string, v bson.RawValue) {
	bound := newBuilder()
	bound.add(operator, v)
	l.addFilter(path, objectValue(bound.document()))
}

func (o Options) addClauses(l *clauseList, filter bson.Raw, depth int) error {
	if depth > maxQueryDepth {
		return refuse(codeBadValue, "the filter nests deeper than %d levels", maxQueryDepth)
	}
	var part cursor
	for part.open(filter); part.next(); {
		name, v := string(part.key), part.value()
		switch {
		case name == "$and":
			var clause cursor
			if v.Type != bson.TypeArray {
				return refuse(codeBadValue, "the filter: $and must be an array of filters")
			}
			for clause.open(v.Value); clause.next(); {
				if err := o.addClauses(l, clause.value().Value, depth+1); err != nil {
					return err
				}
			}
		case o.OfMeta(name):
			path, err := o.bucketPath("filter", name)
			if err != nil {
				return err
			}
			l.addFilter(path, v)
		case name == o.TimeField:
			o.addTimes(l, v)
		}
	}
	if part.err != nil {
		return refuse(codeBadValue, "the filter is %v", part.err)
	}
	return nil
}

// addTimes adds the bounds of the buckets' times for a condition on the time. It ignores an operator that is no bound.
func (o Options) addTimes(l *clauseList, v bson.RawValue) {
	operators, isDocument := v.DocumentOK()
	if !isDocument {
		operators = newBuilder().document()
		if v.Type == bson.TypeDateTime {
			o.addTime(l, "$gte", v)
			o.addTime(l, "$lte", v)
		}
	}
	var operator cursor
	for operator.open(operators); operator.next(); {
		switch name := string(operator.key); {
		case operator.value().Type != bson.TypeDateTime:
		case name == "$eq":
			o.addTime(l, "$gte", operator.value())
			o.addTime(l, "$lte", operator.value())
		case name == "$gt" || name == "$gte" || name == "$lt" || name == "$lte":
			o.addTime(l, name, operator.value())
		}
	}
}

// addTime adds one bound. A bucket with a measurement at or after v begins later than v minus the span.
func (o Options) addTime(l *clauseList, operator string, v bson.RawValue) {
	low, high := MinPath(o.TimeField), MaxPath(o.TimeField)
	if operator == "$lt" || operator == "$lte" {
		l.addBound(low, operator, v)
		return
	}
	l.addBound(high, operator, v)
	if at := v.DateTime(); at >= -1<<63+o.Span() {
		l.addBound(low, "$gt", bson.RawValue{Type: bson.TypeDateTime, Value: bsoncore.AppendInt64(nil, at-o.Span())})
	}
}
