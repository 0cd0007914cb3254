package collection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// shelf is a collection in memory that supports the queries and updates of edits.
type shelf struct {
	t         testing.TB
	documents []bson.Raw
	before    func()      // called before each command. Nil means nothing.
	lost      func() bool // reports whether the answer to a write is lost. Nil means never.
}

func (s *shelf) command() {
	if s.before != nil {
		s.before()
	}
}

func (s *shelf) answer() error {
	if s.lost != nil && s.lost() {
		return errLost
	}
	return nil
}

// Insert implements mongodb.Collection.
func (s *shelf) Insert(_ context.Context, documents []bson.Raw) (reply mongodb.Reply, err error) {
	s.command()
	for i, d := range documents {
		if slices.ContainsFunc(s.documents, func(have bson.Raw) bool { return have.Lookup("_id").Equal(d.Lookup("_id")) }) {
			reply.Errors = append(reply.Errors, mongodb.WriteError{Index: i, Code: 11000, Message: "duplicate key"})
			continue
		}
		s.documents = append(s.documents, d)
		reply.N++
	}
	return reply, s.answer()
}

// Find implements mongodb.Collection. It does not return documents that each writes.
func (s *shelf) Find(_ context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	s.command()
	for _, d := range slices.Clone(s.documents) {
		if s.finds(d, q.Filter) {
			if err := each(slices.Clone(d)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Update implements mongodb.Collection.
func (s *shelf) Update(_ context.Context, updates []mongodb.Update) (reply mongodb.Reply, err error) {
	s.command()
	for _, u := range updates {
		reply.N += s.update(u.Filter, u.Update)
	}
	return reply, s.answer()
}

// update updates the first matching document.
func (s *shelf) update(filter, update bson.Raw) int {
	i := slices.IndexFunc(s.documents, func(d bson.Raw) bool { return s.finds(d, filter) })
	if i < 0 {
		return 0
	}
	var d, operators bson.D
	if err := errors.Join(bson.Unmarshal(s.documents[i], &d), bson.Unmarshal(update, &operators)); err != nil {
		s.t.Fatal(err)
	}
	for _, o := range operators {
		for _, field := range o.Value.(bson.D) {
			d = placed(d, strings.Split(field.Key, "."), func(old any) any {
				switch o.Key {
				case "$set":
					return field.Value
				case "$unset":
					return nil
				case "$inc":
					n, _ := old.(int32)
					return n + field.Value.(int32)
				}
				panic("the shelf has no " + o.Key)
			})
		}
	}
	encoded, err := bson.Marshal(d)
	if err != nil {
		s.t.Fatal(err)
	}
	s.documents[i] = encoded
	return 1
}

// placed changes the value at a path. A nil value removes the field.
func placed(d bson.D, path []string, change func(old any) any) bson.D {
	i := slices.IndexFunc(d, func(e bson.E) bool { return e.Key == path[0] })
	var old any
	if i >= 0 {
		old = d[i].Value
	}
	if len(path) > 1 {
		inner, _ := old.(bson.D)
		old = placed(inner, path[1:], change)
	} else if old = change(old); old == nil {
		if i >= 0 {
			d = slices.Delete(d, i, i+1)
		}
		return d
	}
	if i < 0 {
		return append(d, bson.E{Key: path[0], Value: old})
	}
	d[i].Value = old
	return d
}

// Delete implements mongodb.Editable.
func (s *shelf) Delete(_ context.Context, filters []bson.Raw) (reply mongodb.Reply, err error) {
	s.command()
	for _, filter := range filters {
		reply.N += int(s.remove(filter))
	}
	return reply, s.answer()
}

func (s *shelf) remove(filter bson.Raw) int64 {
	before := len(s.documents)
	s.documents = slices.DeleteFunc(s.documents, func(d bson.Raw) bool { return s.finds(d, filter) })
	return int64(before - len(s.documents))
}

func (s *shelf) finds(d, filter bson.Raw) bool {
	conditions, err := filter.Elements()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range conditions {
		switch c.Key() {
		case "$and", "$or":
			clauses, _ := c.Value().Array().Values()
			n := 0
			for _, clause := range clauses {
				if s.finds(d, clause.Document()) {
					n++
				}
			}
			if n == 0 || c.Key() == "$and" && n < len(clauses) {
				return false
			}
		default:
			if !s.holds(d.Lookup(strings.Split(c.Key(), ".")...), c.Value()) {
				return false
			}
		}
	}
	return true
}

// holds reports whether a value meets a condition. Type 0 means a missing value.
func (s *shelf) holds(have, want bson.RawValue) bool {
	operators, ok := want.DocumentOK()
	var all []bson.RawElement
	if ok {
		all, _ = operators.Elements()
	}
	if len(all) == 0 || !strings.HasPrefix(all[0].Key(), "$") {
		return have.Type == want.Type && timeseries.Compare(have, want) == 0
	}
	for _, o := range all {
		v := o.Value()
		same := timeseries.CanonicalType(have.Type) == timeseries.CanonicalType(v.Type)
		switch o.Key() {
		case "$exists":
			ok = (have.Type != 0) == v.Boolean()
		case "$ne":
			ok = !(same && timeseries.Compare(have, v) == 0)
		case "$in":
			values, _ := v.Array().Values()
			ok = slices.ContainsFunc(values, have.Equal)
		case "$gt":
			ok = same && timeseries.Compare(have, v) > 0
		case "$gte":
			ok = same && timeseries.Compare(have, v) >= 0
		case "$lt":
			ok = same && timeseries.Compare(have, v) < 0
		case "$lte":
			ok = same && timeseries.Compare(have, v) <= 0
		case "$not":
			ok = !s.holds(have, v)
		default:
			panic(fmt.Sprint("the shelf has no ", o.Key()))
		}
		if !ok {
			return false
		}
	}
	return true
}
