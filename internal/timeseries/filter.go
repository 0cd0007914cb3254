package timeseries

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

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

// readFilter reads the conditions of a filter. The clauses of $and count as the filter's own, but the clauses of $or and $nor do
// not.
func (c *conditions) readFilter(filter bson.Raw, depth int) error {
	if depth > maxQueryDepth {
		return refuse(codeBadValue, "the filter nests deeper than %d levels", maxQueryDepth)
	}
	var part cursor
	for part.open(filter); part.next(); {
		name, v := string(part.key), part.value()
		switch {
		case name == "$comment":
		case name == "$and":
			if err := c.readClauses(v, depth); err != nil {
				return err
			}
		case name == "" || name[0] == '$':
			c.addWide(name)
		default:
			c.read(name, v)
		}
	}
	if part.err != nil {
		return refuse(codeBadValue, "the filter is %v", part.err)
	}
	return nil
}

func (c *conditions) readClauses(v bson.RawValue, depth int) error {
	if v.Type != bson.TypeArray {
		return refuse(codeBadValue, "the filter: $and must be an array of filters")
	}
	var clause cursor
	for clause.open(v.Value); clause.next(); {
		filter, ok := clause.value().DocumentOK()
		if !ok {
			return refuse(codeBadValue, "the filter: $and.%s must be a filter", clause.key)
		}
		if err := c.readFilter(filter, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// read adds the condition on a path, which is a value to be equal to, or an object of operators.
func (c *conditions) read(path string, v bson.RawValue) {
	if v.Type == bson.TypeRegex {
		c.add(condition{path: path})
		return
	}
	operators, isDocument := v.DocumentOK()
	if !isDocument || !hasOperators(operators) {
		c.add(condition{path, true})
		return
	}
	var operator cursor
	for operator.open(operators); operator.next(); {
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

// hasOperators reports whether an object holds operators. Otherwise it is a value to be equal to.
func hasOperators(d bson.Raw) bool {
	e, err := bsoncore.Document(d).IndexErr(0)
	return err == nil && len(e.Key()) > 0 && e.Key()[0] == '$'
}

// add adds a condition, one per path. Equality is stronger than bounds.
func (c *conditions) add(one condition) {
	i := slices.IndexFunc(c.all, func(have condition) bool { return have.path == one.path })
	if i < 0 {
		c.all = append(c.all, one)
		return
	}
	c.all[i].point = c.all[i].point || one.point
}

func (c *conditions) addWide(what string) {
	if !slices.Contains(c.wide, what) {
		c.wide = append(c.wide, what)
	}
}

// of returns the condition on a path. False means that there is none.
func (c *conditions) of(path string) (condition, bool) {
	i := slices.IndexFunc(c.all, func(have condition) bool { return have.path == path })
	if i < 0 {
		return condition{}, false
	}
	return c.all[i], true
}
