package check

import (
	"cmp"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// extremes holds the smallest (sign -1) or largest (sign 1) values of a bucket's fields. It computes them in the simplest way.
type extremes struct {
	sign   int
	values bson.D
}

// add merges a field of a measurement into the extremes.
func (x *extremes) add(name string, value any) {
	x.values = merged(x.values, bson.E{Key: name, Value: value}, x.sign)
}

// merged returns the document with a field merged into it. On a tie the first value stays.
func merged(d bson.D, e bson.E, sign int) bson.D {
	at := slices.IndexFunc(d, func(f bson.E) bool { return f.Key == e.Key })
	if at < 0 {
		return append(d, bson.E{Key: e.Key, Value: started(e.Value, sign)})
	}
	d[at].Value = extreme(d[at].Value, e.Value, sign)
	return d
}

// started returns a copy of a first value, so that later merging never changes a measurement.
func started(v any, sign int) any {
	switch v := v.(type) {
	case bson.D:
		d := bson.D{}
		for _, e := range v {
			d = merged(d, e, sign)
		}
		return d
	case bson.A:
		elements := make(bson.A, len(v))
		for i, e := range v {
			elements[i] = started(e, sign)
		}
		return elements
	default:
		return v
	}
}

// extreme returns the smaller or larger of the present extreme and a new value. It merges objects field by field and arrays by
// position, and compares all other values as a whole. Values of different types are ordered by the rank of their types.
func extreme(seen, value any, sign int) any {
	switch s := seen.(type) {
	case bson.D:
		if v, ok := value.(bson.D); ok {
			for _, e := range v {
				s = merged(s, e, sign)
			}
			return s
		}
	case bson.A:
		if v, ok := value.(bson.A); ok {
			for i, e := range v {
				if i < len(s) {
					s[i] = extreme(s[i], e, sign)
				} else {
					s = append(s, started(e, sign))
				}
			}
			return s
		}
	}
	if compare(value, seen)*sign > 0 {
		return started(value, sign)
	}
	return seen
}

// compare orders values as MongoDB does, for the types that occur in events.
func compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case int32, int64, float64:
		return compareNumbers(a, b)
	case string:
		return cmp.Compare(a, b.(string))
	case bool:
		return cmp.Compare(ordinal(a), ordinal(b.(bool)))
	case bson.DateTime:
		return cmp.Compare(a, b.(bson.DateTime))
	default:
		return 0
	}
}

// rank returns the position of a value's type in MongoDB's order.
func rank(v any) int {
	switch v.(type) {
	case nil:
		return 5
	case int32, int64, float64:
		return 10
	case string:
		return 15
	case bson.D:
		return 20
	case bson.A:
		return 25
	case bool:
		return 40
	case bson.DateTime:
		return 45
	default:
		panic("check: a value of a type that events are not made of")
	}
}

// compareNumbers compares numbers by value. Two integers are compared exactly, all others as doubles.
func compareNumbers(a, b any) int {
	x, xWhole := whole(a)
	y, yWhole := whole(b)
	if xWhole && yWhole {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(double(a), double(b))
}

func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int32:
		return int64(v), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}

func double(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	n, _ := whole(v)
	return float64(n)
}

func ordinal(b bool) int {
	if b {
		return 1
	}
	return 0
}
