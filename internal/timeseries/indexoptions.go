package timeseries

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

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
	return bson.RawValue{Type: bson.TypeInt32, Value: bsoncore.AppendInt32(nil, int32(seconds+o.Span()/1000))}, nil
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
	b := copied(partial)
	b.add(PathOwner, bson.RawValue{Type: bson.TypeNull})
	return b.document()
}

// notOnlyBuckets takes the condition of onlyBuckets away.
func notOnlyBuckets(partial bson.Raw) bson.Raw {
	return copied(partial, PathOwner).document()
}

// copied begins a document with the fields of another, but for some.
func copied(document bson.Raw, without ...string) *builder {
	b := newBuilder()
	var part cursor
	for part.open(document); part.next(); {
		if name := string(part.key); !slices.Contains(without, name) {
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
	flag, ok := v.BooleanOK()
	if !ok {
		number, isNumber := v.AsInt64OK()
		return isNumber && number != 0
	}
	return flag
}
