package reader

import (
	"fmt"
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
	if v.Type == bson.TypeRegex {
		return nil
	}
	if name, operand := onlyOperator(v); name == "$eq" {
		return &operand
	} else if name == "" && !isOperators(v) {
		return &v
	}
	return nil
}

// onlyOperator returns the name and the operand of {$operator: operand}. The name is empty for anything else.
func onlyOperator(v bson.RawValue) (string, bson.RawValue) {
	elements, err := elementsOf(v)
	if err != nil || len(elements) != 1 || !isOperators(v) {
		return "", bson.RawValue{}
	}
	return elements[0].Key(), elements[0].Value()
}

// isOperators distinguishes {$gt: …} from an object to compare with.
func isOperators(v bson.RawValue) bool {
	elements, err := elementsOf(v)
	return err == nil && len(elements) > 0 && strings.HasPrefix(elements[0].Key(), "$")
}

func elementsOf(v bson.RawValue) ([]bson.RawElement, error) {
	if v.Type != bson.TypeEmbeddedDocument {
		return nil, nil
	}
	return bson.Raw(v.Value).Elements()
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
	case name == "$not" || name == "$elemMatch" || isOperators(v):
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
