package measurement

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// bsonMember is an element of the object that is meta.
type bsonMember struct {
	name     *bsonName
	from, to int // in the document
}

// mostMembers is the largest number of members that arrange sorts.
const mostMembers = 16

// meta walks a value that meta is made of. It finds the value's normal form if that is the value itself, or its members in
// another order.
func (w *bsonWalker) meta(name *bsonName, kind bson.Type, value, limit, depth int) (end int) {
	w.sorted, w.odd, w.normal = true, false, nil
	switch kind {
	case bson.TypeEmbeddedDocument:
		end = w.metaObject(w.names.level(&name.inside, nil, false), value, limit, depth+1)
	case bson.TypeTimestamp:
		return value + 8 // it may be the timestamp (0, 0), which names no series
	default:
		end = w.value(&name.inside, kind, value, limit, depth)
	}
	if uint(end) <= uint(limit) && w.sorted && !w.odd && w.normal == nil {
		w.normal = w.document[value:end:end]
	}
	return end
}

// metaObject walks the object that is meta.
func (w *bsonWalker) metaObject(l *bsonLevel, start, limit, depth int) int {
	end := w.open(l, start, limit, depth)
	if end < 0 {
		return -1
	}
	w.members = w.members[:0]
	rising := true
	name := &l.before
	for at := start + 4; at < end; {
		from, before := at, name
		if name = w.names.name(l, before, w.document, at+1, end); name == nil || name.visit == l.visit {
			return -1
		}
		name.visit = l.visit
		rising = rising && before.rising
		at = w.value(&name.inside, bson.Type(w.document[at]), at+1+len(name.text), end, depth)
		if uint(at) > uint(end) { // also -1
			return -1
		}
		if len(w.members) <= mostMembers {
			w.members = append(w.members, bsonMember{name, from, at})
		}
	}
	switch {
	case rising:
	case len(w.members) > mostMembers || end+1-start > maxMetaBytes:
		w.sorted = false
	case w.sorted && !w.odd:
		w.arrange()
	}
	return end + 1
}

// arrange makes the normal form of an object by sorting its members. Only their order is wrong.
func (w *bsonWalker) arrange() {
	members := w.members
	for i := range members {
		for j := i; j > 0 && bytes.Compare(members[j].name.text, members[j-1].name.text) < 0; j-- {
			members[j], members[j-1] = members[j-1], members[j]
		}
	}
	out := append(w.arranged[:0], 0, 0, 0, 0)
	for _, m := range members {
		out = append(out, w.document[m.from:m.to]...)
	}
	w.arranged = rawbson.EndDocument(out, 0)
	w.normal = w.arranged[:len(w.arranged):len(w.arranged)]
}
