package timeseries

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxQueryDepth bounds the nesting of $and, $or and $nor, as MongoDB's own parser does.
const maxQueryDepth = 100

// BucketQuery translates a query on the meta of measurements to a query on buckets. The first name of each path must be the meta
// field, and becomes "meta". BucketQuery follows $and, $or and $nor, renames the meta field inside $jsonSchema, and keeps
// $comment. It refuses other top-level operators and other fields with an *Error. An empty query stays empty. MongoDB's own time
// series take such queries to select series for an update, a delete or a partial index.
func (o Options) BucketQuery(query bson.Raw) (bson.Raw, error) { return o.bucketQuery(query, false, 0) }

// ReadQuery is BucketQuery for reading. It takes $expr as well.
func (o Options) ReadQuery(query bson.Raw) (bson.Raw, error) { return o.bucketQuery(query, true, 0) }

func (o Options) bucketQuery(query bson.Raw, reading bool, depth int) (bson.Raw, error) {
	if depth > maxQueryDepth {
		return nil, refuse(codeBadValue, "the query nests deeper than %d levels", maxQueryDepth)
	}
	return rewrite(query, "the query is", func(b *builder, name string, v bson.RawValue) (err error) {
		switch name {
		case "$and", "$or", "$nor":
			v, err = o.bucketClauses(name, v, reading, depth)
		case exprOperator:
			if !reading {
				return refuse(codeInvalidOptions, "query: $expr is supported only for reading: use query operators instead, such as {\"%s\": {\"$gt\": 5}}",
					o.MetaField)
			}
			v, err = o.bucketExpression(v, depth+1)
		case "$jsonSchema":
			v, err = o.bucketSchema(v)
		case "$comment":
		default:
			name, err = o.bucketPath("query", name)
		}
		b.add(name, v)
		return err
	})
}

// bucketPath replaces the meta field at the start of a path. where says in what the path stands.
func (o Options) bucketPath(where, path string) (string, error) {
	name, rest := first(path)
	if o.MetaField == "" {
		return "", refuse(codeInvalidOptions, "%s: %s cannot be used here: only the meta can be used, and this time series has no meta", where, path)
	}
	if name != o.MetaField {
		return "", refuse(codeInvalidOptions, "%s: %s is not part of the meta %q, the only field that can be used here; write a part of the meta as %q",
			where, path, o.MetaField, o.MetaField+"."+path)
	}
	return FieldMeta + rest, nil
}

func (o Options) bucketClauses(name string, v bson.RawValue, reading bool, depth int) (bson.RawValue, error) {
	if v.Type != bson.TypeArray {
		return v, refuse(codeBadValue, "query: %s must be an array of queries", name)
	}
	clauses, err := rewrite(v.Value, "query: "+name+" is", func(b *builder, index string, clause bson.RawValue) error {
		if clause.Type != bson.TypeEmbeddedDocument {
			return refuse(codeBadValue, "query: %s.%s must be a query", name, index)
		}
		query, err := o.bucketQuery(clause.Value, reading, depth+1)
		b.add(index, objectValue(query))
		return err
	})
	return bson.RawValue{Type: bson.TypeArray, Value: clauses}, err
}

// bucketSchema renames the meta field in the top-level "required" and "properties" of a $jsonSchema.
func (o Options) bucketSchema(v bson.RawValue) (bson.RawValue, error) {
	if v.Type != bson.TypeEmbeddedDocument {
		return v, refuse(codeBadValue, "query: $jsonSchema must be an object")
	}
	schema, err := rewrite(v.Value, "query: $jsonSchema is", func(b *builder, keyword string, v bson.RawValue) (err error) {
		switch {
		case keyword == "required" && v.Type == bson.TypeArray:
			v.Value, err = o.bucketRequired(v.Value)
		case keyword == "properties" && v.Type == bson.TypeEmbeddedDocument:
			v.Value, err = o.bucketProperties(v.Value)
		}
		b.add(keyword, v)
		return err
	})
	return objectValue(schema), err
}

func (o Options) bucketRequired(names bson.Raw) ([]byte, error) {
	return rewrite(names, "query: $jsonSchema.required is", func(b *builder, index string, name bson.RawValue) error {
		if field, ok := name.StringValueOK(); !ok || o.MetaField == "" || field != o.MetaField {
			return refuse(codeInvalidOptions, "query: $jsonSchema requires %s: only the meta %q can be used here", name, o.MetaField)
		}
		b.add(index, stringValue(FieldMeta))
		return nil
	})
}

func (o Options) bucketProperties(properties bson.Raw) ([]byte, error) {
	return rewrite(properties, "query: $jsonSchema.properties is", func(b *builder, name string, v bson.RawValue) error {
		if o.MetaField == "" || name != o.MetaField {
			return refuse(codeInvalidOptions, "query: $jsonSchema has the property %s: only the meta %q can be used here", name, o.MetaField)
		}
		b.add(FieldMeta, v)
		return nil
	})
}

// exprOperator is the operator of a query that compares by an aggregation expression.
const exprOperator = "$expr"

// bucketExpression translates an aggregation expression on the meta of measurements to an expression on buckets. If the meta
// field is sensor, "$sensor.site" becomes "$meta.site". It refuses a path to another field. It also refuses an operator or a
// variable that reads the whole document, because a bucket has another form.
func (o Options) bucketExpression(v bson.RawValue, depth int) (bson.RawValue, error) {
	if depth > maxQueryDepth {
		return v, refuse(codeBadValue, "the query nests deeper than %d levels", maxQueryDepth)
	}
	switch v.Type {
	case bson.TypeString:
		return o.bucketOperand(v)
	case bson.TypeArray, bson.TypeEmbeddedDocument:
	default:
		return v, nil
	}
	translated, err := rewrite(v.Value, "query: $expr is", func(b *builder, name string, v bson.RawValue) (err error) {
		switch name {
		case "$literal":
		case "$getField":
			if _, err := bson.Raw(v.Value).LookupErr("input"); v.Type != bson.TypeEmbeddedDocument || err != nil {
				return refuse(codeInvalidOptions, "query: $getField without an input reads the whole measurement: use a path of the meta, such as \"$%s.name\"", o.MetaField)
			}
			fallthrough
		default:
			v, err = o.bucketExpression(v, depth+1)
		}
		b.add(name, v)
		return err
	})
	return bson.RawValue{Type: v.Type, Value: translated}, err
}

// bucketOperand translates a string of an expression, which is a path, a variable, or a text.
func (o Options) bucketOperand(v bson.RawValue) (bson.RawValue, error) {
	text, ok := v.StringValueOK()
	path, isPath := strings.CutPrefix(text, "$")
	if !ok || !isPath {
		return v, nil
	}
	if variable, isVariable := strings.CutPrefix(path, "$"); isVariable {
		if name, _ := first(variable); name == "ROOT" || name == "CURRENT" {
			return v, refuse(codeInvalidOptions, "query: %s reads the whole measurement: use a path of the meta, such as \"$%s.sensor\"", text, o.MetaField)
		}
		return v, nil
	}
	path, err := o.bucketPath("query: "+exprOperator, path)
	return stringValue("$" + path), err
}
