package timeseries

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// IDIndexName is the name of the index on _id. It narrows by time if a query bounds the _id too, as MongoDB's own unpacking stage
// does. A bucket's _id begins with its minimum time.
const IDIndexName = "_id_"

// Advice says how the indexes of buckets serve a filter on measurements.
type Advice struct {
	// Index is the name of the index that narrows most. Empty means that every bucket is read.
	Index string
	// Narrows are the paths of the filter by which that index narrows what is read. They are paths of measurements.
	Narrows []string
	// Misses are the paths on the meta and the time by which the index does not narrow, although an index could.
	Misses []string
	// Fields are the paths on other measurement fields. The index does not narrow by them.
	Fields []string
	// Wide are the parts of the filter by which no index narrows: $or, $expr, $ne, …
	Wide []string
	// Keys are the keys of an index on measurements that would narrow by all of Narrows and Misses. Nil means that Misses is
	// empty.
	Keys bson.Raw
}

// Advise chooses the index on buckets that best serves a filter on measurements, and proposes an index on measurements that would
// serve it better. It uses only the definitions. The caller must leave out the index on _id if no query bounds the _id. Hidden
// indexes serve no filter. A partial index serves only a filter that repeats its expression. The error is an *Error, and means
// that the filter is malformed.
func (o Options) Advise(filter bson.Raw, indexes []Index) (Advice, error) {
	c, err := readFilter(filter)
	if err != nil {
		return Advice{}, err
	}
	a := Advice{Wide: c.wide}
	for _, index := range indexes {
		// An index is better the more paths it narrows by. The meta is worth more than the time.
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

// narrowing returns the filter's paths that bound the keys of an index, from its first key on without a gap.
func (o Options) narrowing(c conditions, filter bson.Raw, index Index) (paths []string) {
	if isTrue(index.Options.Lookup("hidden")) || !implied(filter, index.Options) {
		return nil
	}
	var key cursor
	for key.open(index.Keys); key.next(); {
		path, kind := string(key.key), key.value()
		if path == FieldID {
			if c.of(o.TimeField) == nil {
				return nil
			}
			return []string{o.TimeField}
		}
		if below, wild := strings.CutSuffix(path, "$**"); wild {
			return o.narrowingWild(c, below)
		}
		user, isRange := rangeField(path)
		if !isRange {
			var ofMeta bool
			if user, ofMeta = o.userPath(path); !ofMeta {
				return paths
			}
		}
		one := c.of(user)
		if name, named := kind.StringValueOK(); one == nil || named && (name != "hashed" || !one.point) {
			return paths
		}
		if !slices.Contains(paths, user) { // a minimum and a maximum stand for one field
			paths = append(paths, user)
		}
	}
	return paths
}

// narrowingWild returns the path by which a wildcard index narrows, which is a single path. The index covers the paths below the
// given one.
func (o Options) narrowingWild(c conditions, below string) []string {
	_, rest := first(below)
	for _, one := range c.all {
		if strings.HasPrefix(one.path, o.MetaField+rest) && one.path != o.MetaField {
			return []string{one.path}
		}
	}
	return nil
}

// implied reports whether a filter repeats the expression of a partial index word by word, on buckets or on measurements. It is
// true for an index that is not partial.
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

// helpful returns the keys of an index on measurements that narrows by all conditions on the meta and the time. Keys with
// equality come first, then keys with bounds, and the time comes last. The time descends, so that the index on buckets begins
// with the maximum time. MongoDB's unpacking stage bounds the maximum from below, but bounds the minimum only in later versions.
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

// indexNameOf returns the name of an index, or the name that it gets by default.
func indexNameOf(index Index) string {
	if name, ok := index.Options.Lookup("name").StringValueOK(); ok {
		return name
	}
	return indexName(index.Keys)
}

// condition is what a filter requires of one path of measurements.
type condition struct {
	path  string
	point bool // the path equals one of some values. Otherwise it lies within bounds.
}

// conditions are what a filter on measurements requires of paths, as far as an index can narrow what is read.
type conditions struct {
	all []condition
	// wide are the paths and operators by which no index narrows: $or, $ne, $exists, …
	wide []string
}

// readFilter reads the conditions of a filter. The clauses of $or and $nor are not its own.
func readFilter(filter bson.Raw) (c conditions, err error) {
	err = eachCondition(filter, 0, func(name string, v bson.RawValue) {
		switch {
		case name == "$comment":
		case name == "" || name[0] == '$':
			c.addWide(name)
		default:
			c.read(name, v)
		}
	})
	return c, err
}

// read adds the condition on a path, which is a value to be equal to, or an object of operators.
func (c *conditions) read(path string, v bson.RawValue) {
	if v.Type == bson.TypeRegex {
		c.add(condition{path: path})
		return
	}
	if !HasOperators(v) {
		c.add(condition{path, true})
		return
	}
	var operator cursor
	for operator.open(v.Value); operator.next(); {
		switch string(operator.key) {
		case "$eq", "$in":
			c.add(condition{path, true})
		case "$gt", "$gte", "$lt", "$lte", "$regex":
			c.add(condition{path: path})
		case "$options":
		default:
			c.addWide(path + " " + string(operator.key))
		}
	}
}

// add adds a condition, one per path. Equality is stronger than bounds.
func (c *conditions) add(one condition) {
	if have := c.of(one.path); have != nil {
		have.point = have.point || one.point
		return
	}
	c.all = append(c.all, one)
}

func (c *conditions) addWide(what string) {
	if !slices.Contains(c.wide, what) {
		c.wide = append(c.wide, what)
	}
}

// of returns the condition on a path. Nil means that there is none.
func (c *conditions) of(path string) *condition {
	i := slices.IndexFunc(c.all, func(have condition) bool { return have.path == path })
	if i < 0 {
		return nil
	}
	return &c.all[i]
}
