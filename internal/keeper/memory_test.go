package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// memory is a replica set in memory, with one order of writes. A session sees a state that includes everything it wrote or saw.
type memory struct {
	w        *world
	versions []state // state after each write. The last one is the primary's.
	commands []string
}

// state holds all documents, by collection and _id.
type state map[string]map[string]bson.Raw

func newMemory(w *world) *memory { return &memory{w: w, versions: []state{{}}} }

func (m *memory) now() state { return m.versions[len(m.versions)-1] }

// write makes the next version.
func (m *memory) write(collection string, change func(documents map[string]bson.Raw)) {
	next := maps.Clone(m.now())
	documents := maps.Clone(next[collection])
	if documents == nil {
		documents = map[string]bson.Raw{}
	}
	change(documents)
	next[collection] = documents
	m.versions = append(m.versions, next)
}

// session orders reads after writes.
type session struct{ seen int }

type sessionKey struct{}

// Context implements mongodb.Session.
func (s *session) Context(parent context.Context) context.Context {
	return context.WithValue(parent, sessionKey{}, s)
}

// End implements mongodb.Session.
func (s *session) End() {}

// memoryCollection implements mongodb.Editable.
type memoryCollection struct {
	m    *memory
	name string
}

var errCrash = errors.New("the process ended")

// begin lets other actors go first.
func (c memoryCollection) begin(ctx context.Context, command string) (*session, error) {
	c.m.commands = append(c.m.commands, command+" "+c.name)
	if err := c.m.w.step(ctx); err != nil {
		return nil, err
	}
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s, nil
}

// wrote records a write for its session, and for the check of edited series.
func (c memoryCollection) wrote(ctx context.Context, s *session) {
	if s != nil {
		s.seen = len(c.m.versions) - 1
	}
	if a, ok := ctx.Value(actorKey{}).(*actor); ok && c.name == "buckets" {
		c.m.w.edited(a)
	}
}

func (c memoryCollection) Insert(ctx context.Context, documents []bson.Raw) (reply mongodb.Reply, err error) {
	s, err := c.begin(ctx, "insert")
	if err != nil {
		return reply, err
	}
	c.m.write(c.name, func(all map[string]bson.Raw) {
		for i, d := range documents {
			if id := idOf(d); all[id] == nil {
				all[id] = slices.Clone(d)
				reply.N++
			} else {
				reply.Errors = append(reply.Errors, mongodb.WriteError{Index: i, Code: 11000, Message: "duplicate key"})
			}
		}
	})
	c.wrote(ctx, s)
	return reply, c.m.w.answer(ctx)
}

func (c memoryCollection) Update(ctx context.Context, updates []mongodb.Update) (reply mongodb.Reply, err error) {
	s, err := c.begin(ctx, "update")
	if err != nil {
		return reply, err
	}
	c.m.write(c.name, func(all map[string]bson.Raw) {
		for _, u := range updates {
			for _, id := range slices.Sorted(maps.Keys(all)) {
				if matches(all[id], u.Filter) {
					all[id] = updated(all[id], u.Update)
					reply.N++
					break
				}
			}
		}
	})
	c.wrote(ctx, s)
	return reply, c.m.w.answer(ctx)
}

func (c memoryCollection) Delete(ctx context.Context, filters []bson.Raw) (reply mongodb.Reply, err error) {
	s, err := c.begin(ctx, "delete")
	if err != nil {
		return reply, err
	}
	c.m.write(c.name, func(all map[string]bson.Raw) {
		for _, filter := range filters {
			for id, d := range all {
				if matches(d, filter) {
					delete(all, id)
					reply.N++
					break
				}
			}
		}
	})
	c.wrote(ctx, s)
	return reply, c.m.w.answer(ctx)
}

func (c memoryCollection) Find(ctx context.Context, q mongodb.Query, each func(bson.Raw) error) error {
	s, err := c.begin(ctx, "find")
	if err != nil {
		return err
	}
	at := len(c.m.versions) - 1
	if s != nil { // a lagging member may answer
		if lag := at - s.seen; lag > 0 && !c.m.w.calm && c.m.w.rnd.IntN(3) == 0 {
			at -= c.m.w.rnd.IntN(lag + 1)
		}
		s.seen = at
	}
	if a, ok := ctx.Value(actorKey{}).(*actor); ok && c.name == "buckets" {
		a.read = min(a.read, at)
	}
	documents := c.m.versions[at][c.name]
	var limit int64
	ids := slices.Sorted(maps.Keys(documents))
	if order, _ := q.Sort.Lookup("_id").AsInt64OK(); order < 0 {
		slices.Reverse(ids)
	}
	for _, id := range ids {
		if !matches(documents[id], q.Filter) {
			continue
		}
		if err := each(slices.Clone(documents[id])); err != nil {
			return err
		}
		if limit++; limit == q.Limit {
			break
		}
	}
	return nil
}

func idOf(d bson.Raw) string {
	id := d.Lookup("_id")
	return string(byte(id.Type)) + string(id.Value)
}

// matches evaluates the filters that packages sink and collection use.
func matches(d, filter bson.Raw) bool {
	conditions, _ := filter.Elements()
	for _, c := range conditions {
		switch c.Key() {
		case "$and", "$or":
			clauses, _ := c.Value().Array().Values()
			n := 0
			for _, clause := range clauses {
				if matches(d, clause.Document()) {
					n++
				}
			}
			if n == 0 || c.Key() == "$and" && n < len(clauses) {
				return false
			}
		default:
			if !holds(d.Lookup(strings.Split(c.Key(), ".")...), c.Value()) {
				return false
			}
		}
	}
	return true
}

func holds(have, want bson.RawValue) bool {
	operators, ok := want.DocumentOK()
	var all []bson.RawElement
	if ok {
		all, _ = operators.Elements()
	}
	if len(all) == 0 || !strings.HasPrefix(all[0].Key(), "$") {
		return equal(have, want)
	}
	for _, o := range all {
		v := o.Value()
		same := timeseries.CanonicalType(have.Type) == timeseries.CanonicalType(v.Type)
		order := timeseries.Compare(have, v)
		switch o.Key() {
		case "$exists":
			ok = (have.Type != 0) == v.Boolean()
		case "$eq":
			ok = equal(have, v)
		case "$ne":
			ok = !equal(have, v)
		case "$in":
			values, _ := v.Array().Values()
			ok = slices.ContainsFunc(values, func(one bson.RawValue) bool { return equal(have, one) })
		case "$gt":
			ok = same && order > 0
		case "$gte":
			ok = same && order >= 0
		case "$lt":
			ok = same && order < 0
		case "$lte":
			ok = same && order <= 0
		case "$not":
			ok = !holds(have, v)
		default:
			panic("the memory has no " + o.Key())
		}
		if !ok {
			return false
		}
	}
	return true
}

func equal(a, b bson.RawValue) bool {
	if a.Type == bson.TypeArray || a.Type != b.Type {
		return timeseries.CanonicalType(a.Type) == timeseries.CanonicalType(b.Type) && timeseries.Compare(a, b) == 0
	}
	return bytes.Equal(a.Value, b.Value)
}

// updated applies $set and $unset.
func updated(document, update bson.Raw) bson.Raw {
	var d, operators bson.D
	if err := errors.Join(bson.Unmarshal(document, &d), bson.Unmarshal(update, &operators)); err != nil {
		panic(err)
	}
	for _, o := range operators {
		for _, field := range o.Value.(bson.D) {
			d = placed(d, strings.Split(field.Key, "."), o.Key, field.Value)
		}
	}
	return encoded(d)
}

func placed(d bson.D, path []string, operator string, value any) bson.D {
	i := slices.IndexFunc(d, func(e bson.E) bool { return e.Key == path[0] })
	switch {
	case operator != "$set" && operator != "$unset":
		panic(fmt.Sprint("the memory has no ", operator))
	case operator == "$unset" && i < 0:
		return d
	case operator == "$unset" && len(path) == 1:
		return slices.Delete(d, i, i+1)
	case i < 0:
		d = append(d, bson.E{Key: path[0]})
		i = len(d) - 1
	}
	if len(path) > 1 {
		inner, _ := d[i].Value.(bson.D)
		value = placed(inner, path[1:], operator, value)
	}
	d[i].Value = value
	return d
}

func encoded(d any) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return raw
}
