package collection_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// errStage means that the model does not support a stage, just as some servers do not support all stages.
var errStage = errors.New("unrecognized pipeline stage name")

// missing is the value of a missing field.
type missing struct{}

// aggregation models MongoDB's aggregation, as far as views use it here, following its documentation.
type aggregation struct {
	collection func(name string) []bson.D
	unpack     func(stage bson.D, buckets []bson.D) []bson.D // MongoDB's own stage. Nil means that it is not supported.
	unknown    []string                                      // further stages that are not supported
	now        bson.DateTime
	always     string // an operator that is true for all operands
}

// aggregate runs a pipeline. documents are the content of all collections.
func aggregate(pipeline bson.A, documents ...bson.D) ([]bson.D, error) {
	a := aggregation{collection: func(string) []bson.D { return documents }, now: bson.NewDateTimeFromTime(time.Now())}
	return a.run(pipeline, documents)
}

func (a aggregation) run(pipeline bson.A, documents []bson.D) ([]bson.D, error) {
	for _, stage := range pipeline {
		stage := stage.(bson.D)[0]
		known := slices.Contains([]string{"$match", "$project", "$replaceWith", "$replaceRoot", "$unwind", "$limit", "$unset", "$unionWith"}, stage.Key)
		if slices.Contains(a.unknown, stage.Key) || !known && (stage.Key != internal || a.unpack == nil) {
			return nil, fmt.Errorf("%w: %q", errStage, stage.Key)
		}
		var next []bson.D
		switch stage.Key {
		case internal:
			next = a.unpack(stage.Value.(bson.D), documents)
		case "$unionWith":
			union := stage.Value.(bson.D)
			more, err := a.run(fieldOf(union, "pipeline").(bson.A), a.collection(fieldOf(union, "coll").(string)))
			if err != nil {
				return nil, err
			}
			next = append(more, documents...) // in any order
		default:
			for _, d := range documents {
				made, err := a.stage(stage, d)
				if err != nil {
					return nil, err
				}
				next = append(next, made...)
			}
		}
		documents = next
	}
	return documents, nil
}

// matches reports whether a query matches a document.
func matches(query bson.D, vars map[string]any) bool {
	for _, condition := range query {
		v := pathOf(vars["ROOT"], condition.Key)
		operator, special := condition.Value.(bson.D)
		special = special && len(operator) == 1 && strings.HasPrefix(operator[0].Key, "$")
		ok := false
		switch {
		case condition.Key == "$expr":
			ok = evaluate(condition.Value, vars) == true
		case !special:
			ok = reflect.DeepEqual(v, condition.Value)
		case operator[0].Key == "$exists":
			ok = (v != any(missing{})) == operator[0].Value
		case operator[0].Key == "$in":
			ok = slices.ContainsFunc(operator[0].Value.(bson.A), func(one any) bool { return reflect.DeepEqual(v, one) })
		case operator[0].Key == "$gte":
			text, isText := v.(string)
			ok = isText && text >= operator[0].Value.(string)
		default:
			panic("the model has no query " + operator[0].Key)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (a aggregation) stage(stage bson.E, d bson.D) ([]bson.D, error) {
	vars := map[string]any{"ROOT": d, "NOW": a.now, "always": a.always}
	switch stage.Key {
	case "$match":
		if !matches(stage.Value.(bson.D), vars) {
			return nil, nil
		}
		return []bson.D{d}, nil
	case "$project":
		fields := stage.Value.(bson.D)
		return []bson.D{evaluate(fields[1:], vars).(bson.D)}, nil // the first one is _id: 0
	case "$unset":
		return []bson.D{slices.DeleteFunc(slices.Clone(d), func(e bson.E) bool { return e.Key == stage.Value })}, nil
	case "$replaceWith":
		return []bson.D{evaluate(stage.Value, vars).(bson.D)}, nil
	case "$replaceRoot":
		return []bson.D{evaluate(fieldOf(stage.Value.(bson.D), "newRoot"), vars).(bson.D)}, nil
	case "$unwind":
		o, withIndex := stage.Value.(bson.D)
		if !withIndex {
			o = bson.D{{Key: "path", Value: stage.Value}}
		}
		field := strings.TrimPrefix(fieldOf(o, "path").(string), "$")
		var all []bson.D
		elements, _ := fieldOf(d, field).(bson.A)
		for i, element := range elements {
			one := slices.Clone(d)
			for j := range one {
				if one[j].Key == field {
					one[j].Value = element
				}
			}
			if withIndex {
				one = append(one, bson.E{Key: fieldOf(o, "includeArrayIndex").(string), Value: int64(i)})
			}
			all = append(all, one)
		}
		return all, nil
	}
	return []bson.D{d}, nil // $limit, which lets none or one pass
}

// evaluate returns the value of an expression.
func evaluate(expression any, vars map[string]any) any {
	switch e := expression.(type) {
	case string:
		if path, ok := strings.CutPrefix(e, "$$"); ok {
			name, rest, _ := strings.Cut(path, ".")
			return pathOf(vars[name], rest)
		}
		if path, ok := strings.CutPrefix(e, "$"); ok {
			return pathOf(vars["ROOT"], path)
		}
	case bson.D:
		if len(e) == 1 && strings.HasPrefix(e[0].Key, "$") {
			return operate(e[0].Key, e[0].Value, vars)
		}
		object := bson.D{}
		for _, field := range e {
			if v := evaluate(field.Value, vars); v != any(missing{}) {
				object = append(object, bson.E{Key: field.Key, Value: v})
			}
		}
		return object
	case bson.A:
		array := bson.A{}
		for _, element := range e {
			array = append(array, evaluate(element, vars))
		}
		return array
	}
	return expression
}

// earlier compares dates. A missing one is less than any other.
func earlier(v, than any) bool {
	a, isDate := v.(bson.DateTime)
	b, thanDate := than.(bson.DateTime)
	return thanDate && (v == any(missing{}) || isDate && a < b)
}

func operate(operator string, arguments any, vars map[string]any) any {
	argument := func(i int) any { return evaluate(arguments.(bson.A)[i], vars) }
	option := func(name string) any { return fieldOf(arguments.(bson.D), name) }
	with := func(name string, value any) map[string]any {
		inner := map[string]any{name: value}
		for k, v := range vars {
			if k != name {
				inner[k] = v
			}
		}
		return inner
	}
	if operator == vars["always"] {
		return true
	}
	switch operator {
	case "$literal":
		return arguments
	case "$ne":
		return !reflect.DeepEqual(argument(0), argument(1))
	case "$eq":
		return reflect.DeepEqual(argument(0), argument(1))
	case "$lte":
		return !earlier(argument(1), argument(0))
	case "$gt":
		return earlier(argument(1), argument(0))
	case "$not":
		return argument(0) != true
	case "$in":
		return slices.ContainsFunc(argument(1).(bson.A), func(one any) bool { return reflect.DeepEqual(argument(0), one) })
	case "$ifNull":
		if v := argument(0); v != nil && v != any(missing{}) {
			return v
		}
		return argument(1)
	case "$concatArrays":
		all := bson.A{}
		for i := range arguments.(bson.A) {
			all = append(all, argument(i).(bson.A)...)
		}
		return all
	case "$arrayElemAt":
		if array, i := argument(0).(bson.A), argument(1).(int64); i < int64(len(array)) {
			return array[i]
		}
		return missing{}
	case "$let":
		variable := option("vars").(bson.D)[0]
		return evaluate(option("in"), with(variable.Key, evaluate(variable.Value, vars)))
	case "$map", "$filter":
		made := bson.A{}
		for _, element := range evaluate(option("input"), vars).(bson.A) {
			inner := with(option("as").(string), element)
			if operator == "$filter" {
				if evaluate(option("cond"), inner) == true {
					made = append(made, element)
				}
				continue
			}
			v := evaluate(option("in"), inner)
			if v == any(missing{}) {
				v = nil
			}
			made = append(made, v)
		}
		return made
	case "$objectToArray":
		pairs := bson.A{}
		for _, field := range evaluate(arguments, vars).(bson.D) {
			pairs = append(pairs, bson.D{{Key: "k", Value: field.Key}, {Key: "v", Value: field.Value}})
		}
		return pairs
	case "$arrayToObject":
		object := bson.D{}
		for _, pair := range evaluate(arguments, vars).(bson.A) {
			object = merged(object, bson.D{{Key: pair.(bson.D)[0].Value.(string), Value: pair.(bson.D)[1].Value}})
		}
		return object
	case "$mergeObjects":
		object := bson.D{}
		for i := range arguments.(bson.A) {
			object = merged(object, argument(i).(bson.D))
		}
		return object
	}
	panic("the model has no " + operator)
}

// merged sets the fields of another object. Existing fields keep their position.
func merged(object, other bson.D) bson.D {
	for _, field := range other {
		if i := slices.IndexFunc(object, func(e bson.E) bool { return e.Key == field.Key }); i >= 0 {
			object[i].Value = field.Value
		} else {
			object = append(object, field)
		}
	}
	return object
}

func fieldOf(d bson.D, name string) any {
	for _, field := range d {
		if field.Key == name {
			return field.Value
		}
	}
	return missing{}
}

// pathOf returns the value at a path. A path through an array returns the array of the values in its elements.
func pathOf(v any, path string) any {
	if path == "" {
		return v
	}
	name, rest, _ := strings.Cut(path, ".")
	switch v := v.(type) {
	case bson.D:
		return pathOf(fieldOf(v, name), rest)
	case bson.A:
		all := bson.A{}
		for _, element := range v {
			if found := pathOf(element, path); found != any(missing{}) {
				all = append(all, found)
			}
		}
		return all
	}
	return missing{}
}
