package timeseries

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// UserIndex reverses BucketIndex. It returns the index on measurements that becomes this index on buckets. False means that there
// is none. Options of buckets are those of a createIndexes specification, without key.
func (o Options) UserIndex(buckets Index) (Index, bool) {
	keys, ok := o.userKeys(buckets)
	if !ok {
		return Index{}, false
	}
	options, ok := o.userOptions(buckets.Options)
	if !ok {
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
		name, rest := first(path)
		if name != FieldMeta || o.MetaField == "" {
			return nil, false
		}
		b.add(o.MetaField+rest, v)
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

func (o Options) userOptions(options bson.Raw) (bson.Raw, bool) {
	if options == nil {
		return nil, true
	}
	b := newBuilder()
	var option cursor
	for option.open(options); option.next(); {
		name, v := string(option.key), option.value()
		switch name {
		case "v", "key", "ns":
			continue
		case "expireAfterSeconds":
			seconds, ok := v.AsInt64OK()
			if !ok {
				return nil, false
			}
			v = int64Value(seconds - o.Span()/1000)
		case "partialFilterExpression":
			filter, ok := v.DocumentOK()
			if !ok {
				return nil, false
			}
			if options.Lookup("expireAfterSeconds").Type != 0 {
				filter = notOnlyBuckets(filter)
			}
			if filter, ok = o.userQuery(filter, 0); !ok {
				return nil, false
			}
			v = objectValue(filter)
		}
		b.add(name, v)
	}
	return b.document(), option.err == nil
}

// userQuery reverses BucketQuery for the operators that a partial filter may have.
func (o Options) userQuery(query bson.Raw, depth int) (bson.Raw, bool) {
	b := newBuilder()
	var part cursor
	for part.open(query); part.next(); {
		name, v := string(part.key), part.value()
		if name == "$and" || name == "$or" || name == "$nor" {
			clauses, ok := o.userClauses(v, depth+1)
			if !ok {
				return nil, false
			}
			b.add(name, bson.RawValue{Type: bson.TypeArray, Value: clauses})
			continue
		}
		top, rest := first(name)
		if top != FieldMeta || o.MetaField == "" {
			return nil, false
		}
		b.add(o.MetaField+rest, v)
	}
	return b.document(), part.err == nil
}

func (o Options) userClauses(v bson.RawValue, depth int) (bson.Raw, bool) {
	if v.Type != bson.TypeArray || depth > maxQueryDepth {
		return nil, false
	}
	b := newBuilder()
	var clause cursor
	for clause.open(v.Value); clause.next(); {
		query, ok := clause.value().DocumentOK()
		if !ok {
			return nil, false
		}
		if query, ok = o.userQuery(query, depth); !ok {
			return nil, false
		}
		b.add(string(clause.key), objectValue(query))
	}
	return b.document(), clause.err == nil
}
