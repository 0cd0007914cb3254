package pipeline_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// matches evaluates a filter, with the operators that the sink uses.
func matches(document, filter bson.Raw) bool {
	for _, condition := range elementsOf(filter) {
		if condition.Key() == "$and" {
			for _, clause := range elementsOf(bson.Raw(condition.Value().Array())) {
				if !matches(document, clause.Value().Document()) {
					return false
				}
			}
			continue
		}
		if condition.Key() == "$or" {
			if !slices.ContainsFunc(elementsOf(bson.Raw(condition.Value().Array())), func(clause bson.RawElement) bool {
				return matches(document, clause.Value().Document())
			}) {
				return false
			}
			continue
		}
		have := valueAt(document, condition.Key())
		want := condition.Value()
		operators, isDocument := want.DocumentOK()
		if !isDocument || !isOperators(operators) {
			if !equal(have, want) {
				return false
			}
			continue
		}
		for _, o := range elementsOf(operators) {
			if !holds(have, o.Key(), o.Value()) {
				return false
			}
		}
	}
	return true
}

func isOperators(d bson.Raw) bool {
	first, err := d.IndexErr(0)
	return err == nil && strings.HasPrefix(first.Key(), "$")
}

func holds(have bson.RawValue, operator string, want bson.RawValue) bool {
	switch operator {
	case "$eq":
		return equal(have, want)
	case "$ne":
		return !equal(have, want)
	case "$exists":
		return (have.Type != 0) == want.Boolean()
	case "$not":
		for _, o := range elementsOf(want.Document()) {
			if holds(have, o.Key(), o.Value()) {
				return false
			}
		}
		return true
	case "$in":
		values, err := want.Array().Values()
		if err != nil {
			panic(err)
		}
		for _, v := range values {
			if equal(have, v) || v.Type == bson.TypeNull && have.Type == 0 {
				return true
			}
		}
		return false
	}
	order, ok := compared(have, want)
	if !ok {
		return false
	}
	switch operator {
	case "$gt":
		return order > 0
	case "$gte":
		return order >= 0
	case "$lt":
		return order < 0
	case "$lte":
		return order <= 0
	}
	panic(fmt.Sprintf("the model has no %s", operator))
}

// compared compares two numbers or two strings. It returns false for all other values.
func compared(have, want bson.RawValue) (order int, ok bool) {
	if a, ok := have.StringValueOK(); ok {
		b, ok := want.StringValueOK()
		return strings.Compare(a, b), ok
	}
	a, aOK := number(have)
	b, bOK := number(want)
	return cmp.Compare(a, b), aOK && bOK
}

func number(v bson.RawValue) (int64, bool) {
	if ms, ok := v.DateTimeOK(); ok {
		return ms, true
	}
	return v.AsInt64OK()
}

func equal(a, b bson.RawValue) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return a.Type == b.Type && bytes.Equal(a.Value, b.Value)
}

func elementsOf(d bson.Raw) []bson.RawElement {
	elements, err := d.Elements()
	if err != nil {
		panic(err)
	}
	return elements
}

// valueAt returns the value at a dotted path. Type 0 means that there is none.
func valueAt(d bson.Raw, path string) bson.RawValue {
	return d.Lookup(strings.Split(path, ".")...)
}

// updated applies update operators.
func updated(document, update bson.Raw) bson.Raw {
	var d, operators bson.D
	if err := bson.Unmarshal(document, &d); err != nil {
		panic(err)
	}
	if err := bson.Unmarshal(update, &operators); err != nil {
		panic(err)
	}
	for _, o := range operators {
		for _, field := range o.Value.(bson.D) {
			if o.Key == "$unset" {
				d = without(d, strings.Split(field.Key, "."))
				continue
			}
			d = changed(d, strings.Split(field.Key, "."), o.Key, field.Value)
		}
	}
	return encoded(d)
}

// without removes the field at a path.
func without(d bson.D, path []string) bson.D {
	for i := range d {
		if d[i].Key != path[0] {
			continue
		}
		if len(path) == 1 {
			return slices.Delete(d, i, i+1)
		}
		if inner, ok := d[i].Value.(bson.D); ok {
			d[i].Value = without(inner, path[1:])
		}
		return d
	}
	return d
}

// changed applies one operator to the field at a path.
func changed(d bson.D, path []string, operator string, value any) bson.D {
	for i := range d {
		if d[i].Key != path[0] {
			continue
		}
		if len(path) > 1 {
			d[i].Value = changed(d[i].Value.(bson.D), path[1:], operator, value)
		} else {
			d[i].Value = combined(d[i].Value, operator, value)
		}
		return d
	}
	if len(path) > 1 {
		return append(d, bson.E{Key: path[0], Value: changed(nil, path[1:], operator, value)})
	}
	return append(d, bson.E{Key: path[0], Value: combined(nil, operator, value)})
}

func combined(old any, operator string, value any) any {
	switch operator {
	case "$set":
		return value
	case "$push":
		array, _ := old.(bson.A)
		return append(array, value)
	case "$inc":
		n, _ := old.(int32)
		return n + value.(int32)
	case "$min":
		if old == nil || value.(int64) < old.(int64) {
			return value
		}
		return old
	case "$max":
		if old == nil || value.(int64) > old.(int64) {
			return value
		}
		return old
	}
	panic(fmt.Sprintf("the model has no %s", operator))
}
