package timeseries

import (
	"errors"
	"fmt"
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
	case Compare(v, int32Value(0)) >= 0:
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

// indexOptions are the options of an index. The rules of time series concern all of them but rest.
type indexOptions struct {
	name    bson.RawValue
	expire  bson.RawValue
	partial bson.Raw
	rest    *builder // options that are passed on unchanged
}

// readIndexOptions checks a user's options and translates them.
func (o Options) readIndexOptions(user Index) (indexOptions, error) {
	found := indexOptions{rest: newBuilder()}
	if user.Options == nil {
		return found, nil
	}
	collation := false
	var option cursor
	for option.open(user.Options); option.next(); {
		name, v := string(option.key), option.value()
		if err := o.readIndexOption(&found, user.Keys, name, v); err != nil {
			return indexOptions{}, err
		}
		collation = collation || name == "collation"
	}
	switch {
	case option.err != nil:
		return indexOptions{}, refuse(codeBadValue, "the options of the index are %v", option.err)
	case collation && found.partial != nil:
		return indexOptions{}, refuse(codeIndexOptionsConflict, "partialFilterExpression and collation cannot be used together: leave one of them out")
	case found.expire.Type != 0:
		return found, o.checkTTL(user.Keys, found.partial)
	}
	return found, nil
}

func (o Options) readIndexOption(found *indexOptions, keys bson.Raw, name string, v bson.RawValue) (err error) {
	switch name {
	case "name":
		found.name = v
	case "unique":
		if isTrue(v) {
			return refuse(codeInvalidOptions, "unique indexes are not supported on time series: leave unique out")
		}
	case "prepareUnique":
		if isTrue(v) {
			return refuse(codeInvalidOptions, "prepareUnique is not supported on time series, because it refuses buckets like a unique index: leave prepareUnique out")
		}
	case "key", "ns":
		return refuse(codeInvalidOptions, "%s is not an option of an index: give the keys separately from the options", name)
	case "sparse":
		if isTrue(v) && !o.mayBeSparse(keys) {
			return refuse(codeInvalidOptions, "sparse indexes are supported on the time and the meta only: leave sparse out")
		}
		found.rest.add(name, v)
	case "partialFilterExpression":
		filter, ok := v.DocumentOK()
		if !ok {
			return refuse(codeInvalidOptions, "partialFilterExpression is %s: it must be an object", v)
		}
		found.partial, err = o.BucketQuery(filter)
		return err
	case "expireAfterSeconds":
		found.expire, err = o.bucketExpiry(v)
		return err
	default:
		found.rest.add(name, v)
	}
	return nil
}

// bucketExpiry adds the span to a TTL index's seconds, because a bucket expires when the last time that it may hold expires.
func (o Options) bucketExpiry(v bson.RawValue) (bson.RawValue, error) {
	seconds, ok := v.AsInt64OK()
	if limit := maxIndexSeconds - o.Span()/1000; !ok || seconds < 0 || seconds > limit {
		return bson.RawValue{}, refuse(codeInvalidOptions, "expireAfterSeconds is %s: give a number from 0 to %d", v, limit)
	}
	return int32Value(int32(seconds + o.Span()/1000)), nil
}

// checkTTL refuses a TTL index that is not on the time alone, or that no partial filter limits to some series.
func (o Options) checkTTL(keys, partial bson.Raw) error {
	var key cursor
	key.open(keys)
	key.next()
	onTime := string(key.key) == o.TimeField
	switch compound := key.next(); {
	case partial == nil:
		return refuse(codeInvalidOptions, "a TTL index must have a partialFilterExpression on the meta: "+
			"to expire the whole collection, set the collection's expiry instead")
	case compound:
		return refuse(codeCannotCreateIndex, "a TTL index must be on %s alone: MongoDB has no compound TTL indexes", o.TimeField)
	case !onTime:
		return refuse(codeInvalidOptions, "a TTL index must be on %s: measurements can expire only by their time", o.TimeField)
	}
	return nil
}

// onlyBuckets adds the condition that a document is no segment to the partial filter of a TTL index. A segment has a meta of its
// own, which a filter may match, and measurements of other series. A partial filter cannot say that a field is absent, but null
// matches an absent field.
func onlyBuckets(partial bson.Raw) bson.Raw {
	b := notOnlyBuckets(partial)
	b.add(PathOwner, bson.RawValue{Type: bson.TypeNull})
	return b.document()
}

// notOnlyBuckets begins a partial filter without the condition of onlyBuckets.
func notOnlyBuckets(partial bson.Raw) *builder {
	b := newBuilder()
	var part cursor
	for part.open(partial); part.next(); {
		if name := string(part.key); name != PathOwner {
			b.add(name, part.value())
		}
	}
	return b
}

// mayBeSparse reports whether all keys of an index are on the time or the meta.
func (o Options) mayBeSparse(keys bson.Raw) bool {
	var key cursor
	for key.open(keys); key.next(); {
		if path := string(key.key); path != o.TimeField && !o.OfMeta(path) {
			return false
		}
	}
	return true
}

// document returns the options of the index on buckets. It can be called only once.
func (i indexOptions) document(keys bson.Raw) bson.Raw {
	if i.name.Type == 0 {
		i.name = stringValue(indexName(keys))
	}
	i.rest.add("name", i.name)
	if i.partial != nil && i.expire.Type != 0 {
		i.partial = onlyBuckets(i.partial)
	}
	if i.partial != nil {
		i.rest.add("partialFilterExpression", objectValue(i.partial))
	}
	if i.expire.Type != 0 {
		i.rest.add("expireAfterSeconds", i.expire)
	}
	return i.rest.document()
}

// indexName returns the name that MongoDB gives an index by default, as "host_1_time_-1".
func indexName(keys bson.Raw) string {
	var parts []string
	var key cursor
	for key.open(keys); key.next(); {
		direction, ok := key.value().StringValueOK()
		if !ok {
			number, _ := key.value().AsInt64OK()
			direction = fmt.Sprint(number)
		}
		parts = append(parts, string(key.key), direction)
	}
	return strings.Join(parts, "_")
}

// isTrue reads a flag as MongoDB does. The flag is set if it is true or a number other than 0.
func isTrue(v bson.RawValue) bool {
	flag, _ := v.BooleanOK()
	number, isNumber := v.AsInt64OK()
	return flag || isNumber && number != 0
}

// UserIndex reverses BucketIndex. It returns the index on measurements that becomes this index on buckets. False means that there
// is none. Options of buckets are those of a createIndexes specification, without key.
func (o Options) UserIndex(buckets Index) (Index, bool) {
	keys, ok := o.userKeys(buckets)
	options, err := o.userOptions(buckets.Options)
	if !ok || err != nil {
		return Index{}, false
	}
	user := Index{Keys: keys, Options: options}
	// Translating the result again rejects an index that only looks like a user's.
	there, err := o.BucketIndex(user)
	if err != nil || Compare(objectValue(there.Keys), objectValue(buckets.Keys)) != 0 {
		return Index{}, false
	}
	return user, true
}

// userKeys translates the bucket's keys back to the measurements' keys. It skips the second of the two keys that stand for one
// field.
func (o Options) userKeys(buckets Index) (bson.Raw, bool) {
	b := newBuilder()
	var key cursor
	for key.open(buckets.Keys); key.next(); {
		path, v := string(key.key), key.value()
		if field, isColumn := strings.CutPrefix(path, DataPath("")); isColumn {
			b.add(field, stringValue("2dsphere"))
			continue
		}
		if field, isRange := rangeField(path); isRange {
			b.add(field, v)
			if expires := buckets.Options.Lookup("expireAfterSeconds"); expires.Type == 0 && !key.next() {
				return nil, false
			}
			continue
		}
		user, ok := o.userPath(path)
		if !ok {
			return nil, false
		}
		b.add(user, v)
	}
	return b.document(), key.err == nil
}

// rangeField returns the measurement field whose minimum or maximum a path names. False means that the path names neither.
func rangeField(path string) (string, bool) {
	if field, ok := strings.CutPrefix(path, MinPath("")); ok {
		return field, true
	}
	return strings.CutPrefix(path, MaxPath(""))
}

// userPath returns the path in measurements for a path of the meta in buckets. False means that it is not a path of the meta.
func (o Options) userPath(path string) (string, bool) {
	name, rest := first(path)
	return o.MetaField + rest, name == FieldMeta && o.MetaField != ""
}

// errNotUsers means that no index on measurements becomes an index on buckets.
var errNotUsers = errors.New("the index is not an index on measurements")

func (o Options) userOptions(options bson.Raw) (bson.Raw, error) {
	if options == nil {
		return nil, nil
	}
	return rewrite(options, "the options of the index are", func(b *builder, name string, v bson.RawValue) (err error) {
		switch name {
		case "v", "key", "ns":
			return nil
		case "expireAfterSeconds":
			seconds, ok := v.AsInt64OK()
			if !ok {
				return errNotUsers
			}
			v = int64Value(seconds - o.Span()/1000)
		case "partialFilterExpression":
			filter, ok := v.DocumentOK()
			if !ok {
				return errNotUsers
			}
			if options.Lookup("expireAfterSeconds").Type != 0 {
				filter = notOnlyBuckets(filter).document()
			}
			filter, err = o.userQuery(filter, 0)
			v = objectValue(filter)
		}
		b.add(name, v)
		return err
	})
}

// userQuery reverses BucketQuery for the operators that a partial filter may have.
func (o Options) userQuery(query bson.Raw, depth int) (bson.Raw, error) {
	return rewrite(query, "the query is", func(b *builder, name string, v bson.RawValue) (err error) {
		if name == "$and" || name == "$or" || name == "$nor" {
			v, err = o.userClauses(v, depth+1)
			b.add(name, v)
			return err
		}
		user, ok := o.userPath(name)
		if !ok {
			return errNotUsers
		}
		b.add(user, v)
		return nil
	})
}

func (o Options) userClauses(v bson.RawValue, depth int) (bson.RawValue, error) {
	if v.Type != bson.TypeArray || depth > maxQueryDepth {
		return v, errNotUsers
	}
	clauses, err := rewrite(v.Value, "the clauses are", func(b *builder, index string, clause bson.RawValue) error {
		query, ok := clause.DocumentOK()
		if !ok {
			return errNotUsers
		}
		query, err := o.userQuery(query, depth)
		b.add(index, objectValue(query))
		return err
	})
	return arrayValue(clauses), err
}
