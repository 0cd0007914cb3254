package timeseries

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
