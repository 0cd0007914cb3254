package reader

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// condition is an equality of what stands at a path within the meta with a value. An empty path is the whole meta.
type condition struct {
	path  []string
	value bson.RawValue
}

// bounds are what control.min and control.max of a segment tell of a filter on the meta.
type bounds struct {
	field string // of the meta
	// all are the conditions that every segment meets which has a measurement of a selected series. None means that nothing is known.
	all bson.A
	// equal are the conditions that a selected series meets. complete reports that the filter says nothing else, so that no server
	// is needed to tell which series it selects.
	equal    []condition
	complete bool
}

// segmentBounds works out what a filter on the meta says of segments. A segment has values of one kind at each path, as every bucket
// has, so its smallest and its largest value tell which values it may have. Wherever a condition is found, measurements without
// meta are not selected.
func (s *Series) segmentBounds(filter bson.D) bounds {
	b := bounds{field: s.options.MetaField, complete: true}
	b.add(filter)
	b.complete = b.complete && len(b.equal) > 0
	return b
}

// appendTo appends the conditions to a filter on segments.
func (b *bounds) appendTo(filter bson.D) bson.D {
	if len(b.all) == 0 {
		return filter
	}
	return append(filter, bson.E{Key: "$and", Value: b.all})
}

func (b *bounds) add(filter bson.D) {
	for _, e := range filter {
		v := e.Value.(bson.RawValue)
		path := strings.Split(e.Key, ".")
		switch {
		case e.Key == "$and":
			clauses, _ := v.Array().Values()
			for _, clause := range clauses {
				b.add(normalQuery(clause.Document(), 0))
			}
		case path[0] == timeseries.FieldMeta && v.Type != bson.TypeRegex && !slices.Contains(path, ""):
			b.compare(path[1:], v)
		default:
			b.complete = false
		}
	}
}

// compare adds the conditions of a path: a value that it must equal, or operators.
func (b *bounds) compare(path []string, v bson.RawValue) {
	if !isOperators(v) {
		b.equals(path, v)
		return
	}
	operators, _ := elementsOf(v)
	for _, e := range operators {
		operand := e.Value()
		if e.Key() == "$eq" {
			b.equals(path, operand)
			continue
		}
		b.complete = false
		switch e.Key() {
		case "$in":
			b.among(path, operand)
		case "$gt", "$gte":
			if isBound(operand) {
				b.all = append(b.all, b.reaches(path, e.Key(), operand))
			}
		case "$lt", "$lte":
			if isBound(operand) {
				b.all = append(b.all, b.begins(path, e.Key(), operand))
			}
		}
	}
}

// equals adds the conditions of an equality. The conditions of an object are the conditions of its members.
func (b *bounds) equals(path []string, v bson.RawValue) {
	if v.Type != bson.TypeEmbeddedDocument && !isBound(v) {
		b.complete = false
		return
	}
	b.equal = append(b.equal, condition{path, v})
	b.holds(path, v)
}

// holds adds the conditions on segments that have a value at a path.
func (b *bounds) holds(path []string, v bson.RawValue) {
	if isBound(v) {
		b.all = append(b.all, b.begins(path, "$lte", v), b.reaches(path, "$gte", v))
		return
	}
	members, _ := elementsOf(v) // none of what is no object
	for _, e := range members {
		if name := e.Key(); name != "" && name[0] != '$' && !strings.Contains(name, ".") {
			b.holds(append(slices.Clip(path), name), e.Value())
		}
	}
}

// mostAmong is of how many values a segment is asked for each. Of more it is asked for the smallest and the largest.
const mostAmong = 16

// among adds the condition that a path has one of some values.
func (b *bounds) among(path []string, list bson.RawValue) {
	array, ok := list.ArrayOK()
	if !ok {
		return
	}
	values, err := array.Values()
	if err != nil || len(values) == 0 || slices.ContainsFunc(values, func(v bson.RawValue) bool { return !isBound(v) }) {
		return
	}
	if len(values) <= mostAmong {
		var any bson.A
		for _, v := range values {
			any = append(any, slices.Concat(b.begins(path, "$lte", v), b.reaches(path, "$gte", v)))
		}
		b.all = append(b.all, bson.D{{Key: "$or", Value: any}})
		return
	}
	least, most := slices.MinFunc(values, timeseries.Compare), slices.MaxFunc(values, timeseries.Compare)
	if least.Type == most.Type {
		b.all = append(b.all, b.begins(path, "$lte", most), b.reaches(path, "$gte", least))
	}
}

// isBound reports whether values of its kind can be told from the smallest and the largest of them.
func isBound(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeString, bson.TypeBoolean, bson.TypeDateTime, bson.TypeObjectID, bson.TypeInt32, bson.TypeInt64:
		return true
	case bson.TypeDouble:
		return v.Double() == v.Double()
	}
	return false
}

// begins is the condition that the smallest value at a path lies so. MongoDB counts NaN below all numbers, and finds it by no
// comparison. Of arrays the smallest value of one element is enough.
func (b *bounds) begins(path []string, operator string, v bson.RawValue) bson.D {
	least := timeseries.MinPath(b.path(path))
	so := bson.D{{Key: least, Value: bson.D{{Key: operator, Value: v}}}}
	if !v.IsNumber() {
		return so
	}
	return bson.D{{Key: "$or", Value: bson.A{so, bson.D{{Key: least, Value: math.NaN()}}}}}
}

// reaches is the condition that the largest value at a path lies so.
func (b *bounds) reaches(path []string, operator string, v bson.RawValue) bson.D {
	return bson.D{{Key: timeseries.MaxPath(b.path(path)), Value: bson.D{{Key: operator, Value: v}}}}
}

func (b *bounds) path(path []string) string {
	return timeseries.Path(append([]string{b.field}, path...)...)
}

// takes reports whether a meta meets all equalities.
func (b *bounds) takes(meta bson.RawValue) bool {
	return !slices.ContainsFunc(b.equal, func(c condition) bool { return !c.meets(meta, c.path) })
}

// meets reports whether what stands at a path within a value equals the condition's. As for MongoDB, an array has what any of its
// elements has.
func (c *condition) meets(v bson.RawValue, path []string) bool {
	if len(path) == 0 && timeseries.Compare(v, c.value) == 0 {
		return true
	}
	if v.Type == bson.TypeEmbeddedDocument && len(path) > 0 {
		at, err := v.Document().LookupErr(path[0])
		return err == nil && c.meets(at, path[1:])
	}
	if v.Type != bson.TypeArray {
		return false
	}
	values, _ := v.Array().Values()
	for i, one := range values {
		switch {
		case len(path) == 0:
			if timeseries.Compare(one, c.value) == 0 {
				return true
			}
		case one.Type == bson.TypeEmbeddedDocument && c.meets(one, path), strconv.Itoa(i) == path[0] && c.meets(one, path[1:]):
			return true
		}
	}
	return false
}
