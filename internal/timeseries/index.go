package timeseries

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Index is the definition of an index, on measurements as a user gives it or on buckets as the database has it.
type Index struct {
	// Keys are the fields in order, each with 1, -1 or the name of a kind of index.
	Keys bson.Raw
	// Options are the other fields of a createIndexes specification (name, hidden, partialFilterExpression, …). Nil means none.
	Options bson.Raw
}

// BucketIndex translates an index on measurements to the index on buckets that serves the same queries. An index without a name
// gets the default name of the user's keys. The time and other measurement fields are indexed by a bucket's minimum and maximum,
// in the order that suits the direction. A partial filter may name only the meta. A TTL index must be on the time alone, and have
// a partial filter. It expires a bucket when its last possible measurement expires. The error is an *Error.
func (o Options) BucketIndex(user Index) (Index, error) {
	keys, err := o.bucketKeys(user.Keys)
	if err != nil {
		return Index{}, err
	}
	options, err := o.readIndexOptions(user)
	if err != nil {
		return Index{}, err
	}
	if options.expire.Type != 0 {
		if keys, err = o.BucketShardKey(user.Keys); err != nil {
			return Index{}, err
		}
	}
	return Index{Keys: keys, Options: options.document(user.Keys)}, nil
}

// BucketShardKey translates a shard key on measurements. The time becomes the bucket's minimum time alone, which never changes. A
// shard key cannot have other measurement fields. The error is an *Error.
func (o Options) BucketShardKey(keys bson.Raw) (bson.Raw, error) {
	return o.eachKey(keys, func(b *builder, path string, v bson.RawValue) error {
		name, rest := first(path)
		switch {
		case path == o.TimeField && v.IsNumber():
			b.add(MinPath(path), v)
		case name == o.MetaField:
			b.add(FieldMeta+rest, v)
		default:
			return refuse(codeInvalidOptions, "key %s: %s: a shard key can have only the time, ascending or descending, and the meta",
				path, v)
		}
		return nil
	})
}

func (o Options) bucketKeys(keys bson.Raw) (bson.Raw, error) {
	return o.eachKey(keys, func(b *builder, path string, v bson.RawValue) error {
		if kind, ok := v.StringValueOK(); ok && kind == "text" {
			return refuse(codeInvalidOptions, "key %s: text indexes are not supported on time series", path)
		}
		if name, rest := first(path); name == o.MetaField {
			b.add(FieldMeta+rest, v)
			return nil
		}
		return o.addRange(b, path, v)
	})
}

// addRange adds the bucket keys of the time or of another measurement field.
func (o Options) addRange(b *builder, path string, v bson.RawValue) error {
	kind, named := v.StringValueOK()
	switch {
	case path == "$**" || strings.HasSuffix(path, ".$**"):
		return refuse(codeCannotCreateIndex, "key %s: only the meta can have a wildcard index", path)
	case named && kind == "2dsphere" && path != o.TimeField:
		b.add(DataPath(path), stringValue("2dsphere_bucket"))
	case !v.IsNumber():
		return refuse(codeCannotCreateIndex, "key %s: %s: the time and other measurement fields can be indexed "+
			"ascending (1) or descending (-1) only", path, v)
	case Compare(v, bson.RawValue{Type: bson.TypeInt32, Value: make([]byte, 4)}) >= 0:
		b.add(MinPath(path), v)
		b.add(MaxPath(path), v)
	default:
		b.add(MaxPath(path), v)
		b.add(MinPath(path), v)
	}
	return nil
}

// eachKey builds a key pattern from another, key by key.
func (o Options) eachKey(keys bson.Raw, add func(b *builder, path string, v bson.RawValue) error) (bson.Raw, error) {
	pattern, err := rewrite(keys, "the keys of the index are", func(b *builder, path string, v bson.RawValue) error {
		if !addressable(path) {
			return refuse(codeCannotCreateIndex, "key %q: a path must not have empty names", path)
		}
		return add(b, path, v)
	})
	if err == nil && isEmpty(pattern) {
		return nil, refuse(codeBadValue, "the index has no keys: name at least one field")
	}
	return pattern, err
}

// addressable reports whether each name of a dotted path has at least one character.
func addressable(path string) bool {
	return path != "" && path[0] != '.' && path[len(path)-1] != '.' && !strings.Contains(path, "..")
}
