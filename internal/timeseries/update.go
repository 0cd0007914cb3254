package timeseries

import "go.mongodb.org/mongo-driver/v2/bson"

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
