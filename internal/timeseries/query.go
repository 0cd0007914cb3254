package timeseries

import (
	"strconv"
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
	return arrayValue(clauses), err
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

// BucketFilter translates a filter on measurements to a filter on buckets. The filter on buckets finds every bucket with a
// matching measurement, and perhaps others. It translates conditions on the meta as BucketQuery does. Conditions on the time
// become bounds of the times that a bucket holds. Conditions on other fields are left out. The error is an *Error.
func (o Options) BucketFilter(filter bson.Raw) (bson.Raw, error) {
	clauses := clauseList{newBuilder(), 0}
	err := eachCondition(filter, 0, func(name string, v bson.RawValue) {
		switch _, rest := first(name); {
		case o.OfMeta(name):
			clauses.addFilter(FieldMeta+rest, v)
		case name == o.TimeField:
			o.addTimes(&clauses, v)
		}
	})
	if err != nil {
		return nil, err
	}
	all := newBuilder()
	if clauses.n > 0 {
		all.add("$and", arrayValue(clauses.document()))
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

// eachCondition calls use for each condition of a filter, which is a path or an operator with its value. The clauses of $and count
// as the filter's own.
func eachCondition(filter bson.Raw, depth int, use func(name string, v bson.RawValue)) error {
	if depth > maxQueryDepth {
		return refuse(codeBadValue, "the filter nests deeper than %d levels", maxQueryDepth)
	}
	var part cursor
	for part.open(filter); part.next(); {
		name, v := string(part.key), part.value()
		if name != "$and" {
			use(name, v)
			continue
		}
		if v.Type != bson.TypeArray {
			return refuse(codeBadValue, "the filter: $and must be an array of filters")
		}
		var clause cursor
		for clause.open(v.Value); clause.next(); {
			filter, ok := clause.value().DocumentOK()
			if !ok {
				return refuse(codeBadValue, "the filter: $and.%s must be a filter", clause.key)
			}
			if err := eachCondition(filter, depth+1, use); err != nil {
				return err
			}
		}
	}
	if part.err != nil {
		return refuse(codeBadValue, "the filter is %v", part.err)
	}
	return nil
}

// addTimes adds the bounds of the buckets' times for a condition on the time. It ignores an operator that is no bound.
func (o Options) addTimes(l *clauseList, v bson.RawValue) {
	if v.Type != bson.TypeEmbeddedDocument {
		o.addTime(l, "$eq", v)
		return
	}
	var operator cursor
	for operator.open(v.Value); operator.next(); {
		o.addTime(l, string(operator.key), operator.value())
	}
}

// addTime adds the bounds of one condition. A bucket with a measurement at or after v begins later than v minus the span.
func (o Options) addTime(l *clauseList, operator string, v bson.RawValue) {
	if v.Type != bson.TypeDateTime {
		return
	}
	low, high := MinPath(o.TimeField), MaxPath(o.TimeField)
	switch operator {
	case "$eq":
		o.addTime(l, "$gte", v)
		o.addTime(l, "$lte", v)
	case "$lt", "$lte":
		l.addBound(low, operator, v)
	case "$gt", "$gte":
		l.addBound(high, operator, v)
		if at := v.DateTime(); at >= -1<<63+o.Span() {
			l.addBound(low, "$gt", dateValue(at-o.Span()))
		}
	}
}

// MetaUpdate is an update of the meta of many measurements, which changes whole buckets.
type MetaUpdate struct {
	Query bson.Raw
	// Update must be an object of operators.
	Update bson.RawValue
	// Multi must be set, because single measurements have no meta of their own. Upsert must not be set.
	Multi, Upsert bool
}

// MetaDelete deletes the measurements of the series that a query on the meta selects.
type MetaDelete struct {
	Query bson.Raw
	// Multi must be set, because single measurements cannot be selected by their meta.
	Multi bool
}

// BucketUpdate translates an update of the meta to a query and an update of buckets. The operators determine the written meta, so
// the caller must bring it into its normal form again. The error is an *Error.
func (o Options) BucketUpdate(u MetaUpdate) (query, update bson.Raw, err error) {
	switch {
	case o.MetaField == "":
		return nil, nil, refuse(codeInvalidOptions, "update: the collection has no metaField, so nothing can be updated")
	case !u.Multi:
		return nil, nil, refuse(codeInvalidOptions, "update: an update must change all measurements of a series: set multi: true")
	case u.Upsert:
		return nil, nil, refuse(codeInvalidOptions, "update: upsert is not supported on time series")
	case u.Update.Type == bson.TypeArray:
		return nil, nil, refuse(codeInvalidOptions, "update: a pipeline is not supported on time series: use operators such as $set")
	case u.Update.Type != bson.TypeEmbeddedDocument:
		return nil, nil, refuse(codeInvalidOptions, "update: the update must be an object of operators such as $set")
	}
	if query, err = o.BucketQuery(u.Query); err != nil {
		return nil, nil, err
	}
	if update, err = o.bucketOperators(u.Update.Value); err != nil {
		return nil, nil, err
	}
	return query, update, nil
}

// BucketDelete translates the query of a delete. Without a meta field only an empty query, which deletes everything, can
// be translated. The error is an *Error.
func (o Options) BucketDelete(d MetaDelete) (bson.Raw, error) {
	if !d.Multi {
		return nil, refuse(codeIllegalOperation, "delete: a delete must remove all measurements of a series: set multi: true")
	}
	return o.BucketQuery(d.Query)
}

func (o Options) bucketOperators(update bson.Raw) (bson.Raw, error) {
	operators, err := rewrite(update, "update: the document is", func(b *builder, name string, v bson.RawValue) error {
		if name == "" || name[0] != '$' {
			return refuse(codeInvalidOptions, "update: %q is not an operator: a replacement is not supported on time series", name)
		}
		if v.Type != bson.TypeEmbeddedDocument {
			return refuse(codeInvalidOptions, "update: %s must be an object of fields", name)
		}
		fields, err := o.bucketFields(name, v.Value)
		b.add(name, objectValue(fields))
		return err
	})
	if err == nil && isEmpty(operators) {
		return nil, refuse(codeInvalidOptions, "update: an empty document would replace the measurements: use operators such as $set")
	}
	return operators, err
}

// bucketFields renames the fields of one operator, and the new names of $rename.
func (o Options) bucketFields(operator string, fields bson.Raw) (bson.Raw, error) {
	return rewrite(fields, "update: "+operator+" is", func(b *builder, name string, v bson.RawValue) error {
		path, err := o.bucketPath("update: "+operator, name)
		if err == nil && operator == "$rename" {
			to, ok := v.StringValueOK()
			if !ok {
				return refuse(codeInvalidOptions, "update: $rename of %s must have the new name as a string", name)
			}
			to, err = o.bucketPath("update: "+operator, to)
			v = stringValue(to)
		}
		b.add(path, v)
		return err
	})
}
