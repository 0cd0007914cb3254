package reader

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// maxFilterDepth bounds the nesting of a filter that is brought into normal form. Anything deeper stays as it is, and MongoDB
// rejects it.
const maxFilterDepth = 100

// metaFilter translates a filter on the meta into a filter on buckets. A nil filter selects all. whole is not nil if the filter
// compares the whole meta with one value.
func (s *Series) metaFilter(meta any) (filter bson.D, whole *bson.RawValue, err error) {
	raw, err := marshal(meta)
	if err != nil || len(raw) == 0 {
		return nil, nil, err
	}
	if err := raw.Validate(); err != nil {
		return nil, nil, fmt.Errorf("the query's filter on the meta is malformed: %w", err)
	}
	if raw, err = s.options.ReadQuery(raw); err != nil {
		return nil, nil, fmt.Errorf("the query's filter on the meta: %w", err)
	}
	filter = normalQuery(raw, 0)
	return filter, wholeMeta(filter), nil
}

// marshal encodes a filter as a document. It is nil for a nil filter.
func marshal(meta any) (bson.Raw, error) {
	switch m := meta.(type) {
	case nil:
		return nil, nil
	case bson.Raw:
		return m, nil
	}
	raw, err := bson.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("the query's filter on the meta is not a document: %w", err)
	}
	return raw, nil
}

// wholeMeta returns the value that a filter compares the whole meta with. Nil means that the filter is of another form.
func wholeMeta(filter bson.D) *bson.RawValue {
	if len(filter) != 1 || filter[0].Key != timeseries.FieldMeta {
		return nil
	}
	v := filter[0].Value.(bson.RawValue)
	if !timeseries.IsCondition(v) {
		return &v
	}
	if elements := elementsOf(v); len(elements) == 1 && elements[0].Key() == "$eq" {
		operand := elements[0].Value()
		return &operand
	}
	return nil
}

// elementsOf returns the elements of an object, which was validated. Other values have none.
func elementsOf(v bson.RawValue) []bson.RawElement {
	if v.Type != bson.TypeEmbeddedDocument {
		return nil
	}
	elements, _ := bson.Raw(v.Value).Elements()
	return elements
}

// normalQuery brings the values that a query compares with into the normal form in which metas are stored.
func normalQuery(query bson.Raw, depth int) bson.D {
	elements, _ := query.Elements() // it was validated
	d := make(bson.D, len(elements))
	for i, e := range elements {
		d[i] = bson.E{Key: e.Key(), Value: normalCondition(e.Key(), e.Value(), depth)}
	}
	return d
}

// normalCondition does the same for the value of a path or an operator.
func normalCondition(name string, v bson.RawValue, depth int) bson.RawValue {
	switch {
	case depth > maxFilterDepth || name == "$jsonSchema" || name == "$comment":
		return v
	case name == "$expr":
		return timeseries.NormalMeta(v) // It normalizes objects to compare with. The order of an operator's arguments has no meaning.
	case name == "$and" || name == "$or" || name == "$nor":
		return normalClauses(v, depth)
	case name == "$not" || name == "$elemMatch" || timeseries.HasOperators(v):
		if v.Type != bson.TypeEmbeddedDocument {
			return v
		}
		return rawValue(normalQuery(v.Value, depth+1), v)
	}
	return timeseries.NormalMeta(v)
}

func normalClauses(v bson.RawValue, depth int) bson.RawValue {
	clauses, err := v.Array().Values()
	if err != nil {
		return v
	}
	list := make(bson.A, len(clauses))
	for i, c := range clauses {
		if list[i] = c; c.Type == bson.TypeEmbeddedDocument {
			list[i] = rawValue(normalQuery(c.Value, depth+1), c)
		}
	}
	return rawValue(list, v)
}

// rawValue marshals a normalized value. It returns the original if that fails.
func rawValue(v any, original bson.RawValue) bson.RawValue {
	kind, value, err := bson.MarshalValue(v)
	if err != nil {
		return original
	}
	return bson.RawValue{Type: kind, Value: value}
}

// condition requires that the value at a path within the meta equals a value. An empty path means the whole meta.
type condition struct {
	path  []string
	value bson.RawValue
}

// bounds are the conditions on control.min and control.max of a segment that follow from a filter on the meta.
type bounds struct {
	field string // the name of the meta field
	// all are conditions that every segment with a measurement of a selected series meets. Empty means that nothing is known.
	all bson.A
	// equal are the conditions that the meta of a selected series meets. complete reports that the filter has no other
	// conditions. Then the client alone can tell which series the filter selects.
	equal    []condition
	complete bool
	bits     bool // The server compares bits, so the Bloom filter of a segment excludes values too.
}

// segmentBounds derives the bounds of segments from a filter on the meta. A segment, like a bucket, has values of only one kind
// at each path. So its smallest and its largest value tell which values it may have. A filter with any such condition does not
// select measurements without meta.
func (s *Series) segmentBounds(filter bson.D, bits bool) bounds {
	b := bounds{field: s.options.MetaField, complete: true, bits: bits}
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

// compare adds the conditions of a path. v is a value that the path must equal, or an object of operators.
func (b *bounds) compare(path []string, v bson.RawValue) {
	if !timeseries.HasOperators(v) {
		b.equals(path, v)
		return
	}
	for _, e := range elementsOf(v) {
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
	if has := b.has(path, v); has != nil {
		b.all = append(b.all, has)
	}
}

// has is the condition that the Bloom filter of a segment has the value v at a path. It is nil if the filter cannot tell.
func (b *bounds) has(path []string, v bson.RawValue) bson.D {
	if !b.bits {
		return nil
	}
	var entries timeseries.Bloom
	entries.Add(path, v)
	return entries.Conditions()
}

// holds adds the conditions that are met by segments with the value v at a path.
func (b *bounds) holds(path []string, v bson.RawValue) {
	if isBound(v) {
		b.all = append(b.all, b.begins(path, "$lte", v), b.reaches(path, "$gte", v))
		return
	}
	for _, e := range elementsOf(v) {
		if name := e.Key(); name != "" && name[0] != '$' && !strings.Contains(name, ".") {
			b.holds(append(slices.Clip(path), name), e.Value())
		}
	}
}

// mostAmong is the largest number of values for which the condition names each value. For more values it names the smallest and
// the largest.
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
			any = append(any, slices.Concat(b.begins(path, "$lte", v), b.reaches(path, "$gte", v), b.has(path, v)))
		}
		b.all = append(b.all, bson.D{{Key: "$or", Value: any}})
		return
	}
	least, most := slices.MinFunc(values, timeseries.Compare), slices.MaxFunc(values, timeseries.Compare)
	if least.Type == most.Type {
		b.all = append(b.all, b.begins(path, "$lte", most), b.reaches(path, "$gte", least))
	}
}

// isBound reports whether the smallest and the largest value at a path tell whether a segment may hold a value of this kind.
func isBound(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeString, bson.TypeBoolean, bson.TypeDateTime, bson.TypeObjectID, bson.TypeInt32, bson.TypeInt64:
		return true
	case bson.TypeDouble:
		return v.Double() == v.Double()
	}
	return false
}

// begins is the condition that compares the smallest value at a path with v. MongoDB sorts NaN below all numbers, but no
// comparison with a number finds it. If the smallest value is an array, one matching element is enough.
func (b *bounds) begins(path []string, operator string, v bson.RawValue) bson.D {
	least := timeseries.MinPath(b.path(path))
	so := bson.D{{Key: least, Value: bson.D{{Key: operator, Value: v}}}}
	if !v.IsNumber() {
		return so
	}
	return bson.D{{Key: "$or", Value: bson.A{so, bson.D{{Key: least, Value: math.NaN()}}}}}
}

// reaches is the condition that compares the largest value at a path with v.
func (b *bounds) reaches(path []string, operator string, v bson.RawValue) bson.D {
	return bson.D{{Key: timeseries.MaxPath(b.path(path)), Value: bson.D{{Key: operator, Value: v}}}}
}

func (b *bounds) path(path []string) string {
	return timeseries.Path(append([]string{b.field}, path...)...)
}

// takes reports whether a meta meets all conditions in equal.
func (b *bounds) takes(meta bson.RawValue) bool {
	return !slices.ContainsFunc(b.equal, func(c condition) bool { return !c.meets(meta, c.path) })
}

// meets reports whether the value at a path within v equals the condition's value. As in MongoDB, an array meets a condition that
// any of its elements meets.
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
