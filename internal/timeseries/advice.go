package timeseries

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// IDIndexName is the name of the index on _id. It narrows by time for who bounds the _id as well, as MongoDB's own stage for
// unpacking does: a bucket's _id begins with its minimum time.
const IDIndexName = "_id_"

// Advice says how the indexes of buckets serve a filter on measurements.
type Advice struct {
	// Index is the name of the index that narrows by most. Empty means that every bucket is read.
	Index string
	// Narrows are the paths of the filter by which that index narrows what is read, in the measurements' terms.
	Narrows []string
	// Misses are the paths on the meta and the time by which it does not, though an index could.
	Misses []string
	// Fields are the paths on other measurement fields: only what else is asked for narrows by them.
	Fields []string
	// Wide are the parts of the filter by which no index narrows: $or, $expr, $ne, …
	Wide []string
	// Keys are those of an index on measurements that would narrow by all of Narrows and Misses. Nil means that there is one.
	Keys bson.Raw
}

// Advise judges by the definitions alone which of the indexes on buckets serves a filter on measurements, and which index on
// measurements would serve it better. Leave the index on _id out where nobody bounds the _id. Hidden indexes serve nothing, and partial
// ones only a filter that repeats their expression. The error, of a filter that is none, is an *Error.
func (o Options) Advise(filter bson.Raw, indexes []Index) (Advice, error) {
	var c conditions
	if err := c.readFilter(filter, 0); err != nil {
		return Advice{}, err
	}
	a := Advice{Wide: c.wide}
	for _, index := range indexes {
		// The more an index narrows by the better, and the meta is worth more than the time.
		paths := o.narrowing(c, filter, index)
		if len(paths) > len(a.Narrows) || len(paths) == len(a.Narrows) && len(paths) > 0 && a.Narrows[0] == o.TimeField {
			a.Index, a.Narrows = indexNameOf(index), paths
		}
	}
	for _, one := range c.all {
		switch {
		case slices.Contains(a.Narrows, one.path):
		case one.path == o.TimeField || o.OfMeta(one.path):
			a.Misses = append(a.Misses, one.path)
		default:
			a.Fields = append(a.Fields, one.path)
		}
	}
	if len(a.Misses) > 0 {
		a.Keys = o.helpful(c)
	}
	return a, nil
}

// narrowing are the filter's paths that bound the keys of an index, from its first key on without a gap.
func (o Options) narrowing(c conditions, filter bson.Raw, index Index) (paths []string) {
	if isTrue(index.Options.Lookup("hidden")) || !implied(filter, index.Options) {
		return nil
	}
	var key cursor
	for key.open(index.Keys); key.next(); {
		path, kind := string(key.key), key.value()
		if path == FieldID {
			if _, found := c.of(o.TimeField); !found {
				return nil
			}
			return []string{o.TimeField}
		}
		if below, wild := strings.CutSuffix(path, "$**"); wild {
			return o.narrowingWild(c, below)
		}
		user, isRange := rangeField(path)
		if !isRange {
			name, rest := first(path)
			if name != FieldMeta || o.MetaField == "" {
				return paths
			}
			user = o.MetaField + rest
		}
		one, found := c.of(user)
		if _, named := kind.StringValueOK(); !found || named && (kind.StringValue() != "hashed" || !one.point) {
			return paths
		}
		if !slices.Contains(paths, user) { // a minimum and a maximum stand for one field
			paths = append(paths, user)
		}
	}
	return paths
}

// narrowingWild is what a wildcard index on the paths below one narrows by: a single path.
func (o Options) narrowingWild(c conditions, below string) []string {
	_, rest := first(below)
	for _, one := range c.all {
		if strings.HasPrefix(one.path, o.MetaField+rest) && one.path != o.MetaField {
			return []string{one.path}
		}
	}
	return nil
}

// implied reports whether all that a partial index holds is what a filter repeats word by word, on buckets or on measurements.
func implied(filter, options bson.Raw) bool {
	partial, ok := options.Lookup("partialFilterExpression").DocumentOK()
	if !ok {
		return true
	}
	var part cursor
	for part.open(partial); part.next(); {
		_, rest := first(string(part.key))
		same := false
		var asked cursor
		for asked.open(filter); asked.next(); {
			_, askedRest := first(string(asked.key))
			same = same || rest == askedRest && Compare(asked.value(), part.value()) == 0
		}
		if !same {
			return false
		}
	}
	return true
}

// helpful are the keys of an index on measurements that narrows by all conditions on the meta and the time: what is equal
// first, then what is within bounds, and the time last. The time descends, so that the index on buckets begins with the maximum
// there: MongoDB's stage for unpacking bounds that from below, but the minimum only in its later versions.
func (o Options) helpful(c conditions) bson.Raw {
	b := newBuilder()
	for _, point := range []bool{true, false} {
		for _, condition := range c.all {
			if condition.point == point && o.OfMeta(condition.path) {
				b.add(condition.path, int32Value(1))
			}
		}
	}
	b.add(o.TimeField, int32Value(-1))
	return b.document()
}

// OfMeta reports whether a path is the meta or within it.
func (o Options) OfMeta(path string) bool {
	name, _ := first(path)
	return o.MetaField != "" && name == o.MetaField
}

// indexNameOf is the name that an index has, or gets.
func indexNameOf(index Index) string {
	if name, ok := index.Options.Lookup("name").StringValueOK(); ok {
		return name
	}
	return indexName(index.Keys)
}
