package measurement

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// maxWalked bounds how deep an event may be nested to be taken by a bsonWalker.
const maxWalked = 24

// value walks a value that is kept or taken out. Its end may lie beyond the limit, which the caller must check.
func (w *bsonWalker) value(in *bsonInside, kind bson.Type, at, limit, depth int) (end int) {
	switch kind {
	case bson.TypeDouble, bson.TypeInt64, bson.TypeDateTime, bson.TypeTimestamp:
		return at + 8
	case bson.TypeInt32:
		return at + 4
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return w.text(at, limit)
	case bson.TypeBoolean:
		if at < limit && w.document[at] > 1 {
			return -1
		}
		return at + 1
	case bson.TypeNull, bson.TypeMinKey, bson.TypeMaxKey:
		return at
	case bson.TypeObjectID:
		return at + 12
	case bson.TypeDecimal128:
		return at + 16
	case bson.TypeEmbeddedDocument:
		return w.object(w.names.level(in, nil, false), at, limit, depth+1)
	case bson.TypeArray:
		return w.array(w.names.elements(in), at, limit, depth+1)
	}
	w.odd = true
	return w.skip(kind, at, limit, depth)
}

// text walks a string: its length, its bytes and its NUL.
func (w *bsonWalker) text(at, limit int) int {
	if limit-at < 5 {
		return -1
	}
	n := int(int32(binary.LittleEndian.Uint32(w.document[at:])))
	if n < 1 || n > limit-at-4 {
		return -1
	}
	end := at + 4 + n
	if w.document[end-1] != 0 || !w.isText(at+4, end-1) {
		return -1
	}
	return end
}

// isText reports whether bytes are UTF-8. At least four other bytes precede them. Most texts are short ASCII, so it examines
// eight bytes at once. For a shorter text it shifts out the bytes before the text.
func (w *bsonWalker) isText(from, to int) bool {
	const high = 0x8080808080808080
	text := w.document[from:to]
	if len(text) < 8 {
		last := binary.LittleEndian.Uint64(w.document[to-8:])
		return last>>(64-8*len(text))&high == 0 || utf8.Valid(text)
	}
	seen := binary.LittleEndian.Uint64(w.document[to-8:])
	for ; len(text) >= 8; text = text[8:] {
		seen |= binary.LittleEndian.Uint64(text)
	}
	return seen&high == 0 || utf8.Valid(w.document[from:to])
}

// object walks an object from which nothing is taken out.
func (w *bsonWalker) object(l *bsonLevel, start, limit, depth int) int {
	end := w.open(l, start, limit, depth)
	if end < 0 {
		return -1
	}
	name := &l.before
	for at := start + 4; at < end; {
		before := name
		if name = w.names.name(l, before, w.document, at+1, end); name == nil || name.visit == l.visit {
			return -1
		}
		name.visit = l.visit
		w.sorted = w.sorted && before.rising
		at = w.value(&name.inside, bson.Type(w.document[at]), at+1+len(name.text), end, depth)
		if uint(at) > uint(end) { // also -1
			return -1
		}
	}
	return end + 1
}

// array walks an array whose elements are named by their indexes.
func (w *bsonWalker) array(in *bsonInside, start, limit, depth int) int {
	n := rawbson.DocumentSize(w.document[start:limit])
	if n < 0 || depth > maxWalked {
		return -1
	}
	end := start + n - 1
	var digits [20]byte
	for i, at := 0, start+4; at < end; i++ {
		index := append(strconv.AppendInt(digits[:0], int64(i), 10), 0)
		if !bytes.HasPrefix(w.document[at+1:end], index) {
			return -1
		}
		at = w.value(in, bson.Type(w.document[at]), at+1+len(index), end, depth)
		if uint(at) > uint(end) {
			return -1
		}
	}
	return end + 1
}

// skip walks a value that is not kept, or that has a rare type. It applies only the rules of BSON.
func (w *bsonWalker) skip(kind bson.Type, at, limit, depth int) int {
	if at > limit {
		return -1
	}
	c := &w.d.bson
	c.dotted = false
	n, err := c.value(kind, w.document[at:limit], depth)
	if err != nil || c.dotted && w.d.options.DottedNames == Nest {
		return -1
	}
	return at + n
}

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
