package timeseries

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxQueryDepth bounds the nesting of $and, $or and $nor, as MongoDB's own parser does.
const maxQueryDepth = 100

// BucketQuery translates a query on the meta of measurements to one on buckets: the first name of each path, which must
// be the meta field, becomes "meta". $and, $or and $nor are followed, $jsonSchema is renamed inside, $comment is kept;
// any other top-level operator, and any other field, is refused with an *Error. An empty query stays empty.
func (o Options) BucketQuery(query bson.Raw) (bson.Raw, error) { return o.bucketQuery(query, 0) }

func (o Options) bucketQuery(query bson.Raw, depth int) (bson.Raw, error) {
	if depth > maxQueryDepth {
		return nil, refuse(codeBadValue, "the query nests deeper than %d levels", maxQueryDepth)
	}
	b := newBuilder()
	var term cursor
	for term.open(query); term.next(); {
		name, v := string(term.key), term.value()
		var err error
		switch name {
		case "$and", "$or", "$nor":
			if v, err = o.bucketClauses(name, v, depth); err != nil {
				return nil, err
			}
		case "$jsonSchema":
			if v, err = o.bucketSchema(v); err != nil {
				return nil, err
			}
		case "$comment":
		default:
			if name, err = o.bucketPath("query", name); err != nil {
				return nil, err
			}
		}
		b.add(name, v)
	}
	if term.err != nil {
		return nil, refuse(codeBadValue, "the query is %v", term.err)
	}
	return b.document(), nil
}

// bucketPath replaces the meta field at the start of a path; where says what the path stands in.
func (o Options) bucketPath(where, path string) (string, error) {
	name, rest := first(path)
	if o.MetaField == "" || name != o.MetaField {
		return "", refuse(codeInvalidOptions, "%s: %s is not part of the meta %q, the only field that can be used here",
			where, path, o.MetaField)
	}
	return FieldMeta + rest, nil
}

func (o Options) bucketClauses(name string, v bson.RawValue, depth int) (bson.RawValue, error) {
	if v.Type != bson.TypeArray {
		return v, refuse(codeBadValue, "query: %s must be an array of queries", name)
	}
	b := newBuilder()
	var clause cursor
	for clause.open(v.Value); clause.next(); {
		if clause.kind != bson.TypeEmbeddedDocument {
			return v, refuse(codeBadValue, "query: %s.%s must be a query", name, clause.key)
		}
		query, err := o.bucketQuery(clause.body, depth+1)
		if err != nil {
			return v, err
		}
		b.add(string(clause.key), objectValue(query))
	}
	if clause.err != nil {
		return v, refuse(codeBadValue, "query: %s is %v", name, clause.err)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: b.document()}, nil
}

// bucketSchema renames the meta field in the top-level "required" and "properties" of a $jsonSchema.
func (o Options) bucketSchema(v bson.RawValue) (bson.RawValue, error) {
	if v.Type != bson.TypeEmbeddedDocument {
		return v, refuse(codeBadValue, "query: $jsonSchema must be an object")
	}
	b := newBuilder()
	var keyword cursor
	for keyword.open(v.Value); keyword.next(); {
		value, err := keyword.value(), error(nil)
		switch name := string(keyword.key); {
		case name == "required" && keyword.kind == bson.TypeArray:
			value, err = o.bucketRequired(value)
		case name == "properties" && keyword.kind == bson.TypeEmbeddedDocument:
			value, err = o.bucketProperties(value)
		}
		if err != nil {
			return v, err
		}
		b.add(string(keyword.key), value)
	}
	if keyword.err != nil {
		return v, refuse(codeBadValue, "query: $jsonSchema is %v", keyword.err)
	}
	return objectValue(b.document()), nil
}

func (o Options) bucketRequired(v bson.RawValue) (bson.RawValue, error) {
	b := newBuilder()
	var name cursor
	i := 0
	for name.open(v.Value); name.next(); i++ {
		if field, ok := name.value().StringValueOK(); !ok || o.MetaField == "" || field != o.MetaField {
			return v, refuse(codeInvalidOptions, "query: $jsonSchema requires %s: only the meta %q can be used here",
				name.value(), o.MetaField)
		}
		b.add(strconv.Itoa(i), stringValue(FieldMeta))
	}
	if name.err != nil {
		return v, refuse(codeBadValue, "query: $jsonSchema.required is %v", name.err)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: b.document()}, nil
}

func (o Options) bucketProperties(v bson.RawValue) (bson.RawValue, error) {
	b := newBuilder()
	var property cursor
	for property.open(v.Value); property.next(); {
		if o.MetaField == "" || string(property.key) != o.MetaField {
			return v, refuse(codeInvalidOptions, "query: $jsonSchema has the property %s: only the meta %q can be used here",
				property.key, o.MetaField)
		}
		b.add(FieldMeta, property.value())
	}
	if property.err != nil {
		return v, refuse(codeBadValue, "query: $jsonSchema.properties is %v", property.err)
	}
	return objectValue(b.document()), nil
}
