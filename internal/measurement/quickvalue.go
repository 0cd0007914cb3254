package measurement

import (
	"bytes"
	"encoding/binary"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// opened is an open object.
type opened struct {
	place *place
	start int // start of its element in out or in metas. Negative means that it has no element.
	taken int // the value of taken when it was opened
	first int // for an object in meta, the index of its first member in names and starts
}

// begin begins an object.
func (q *quick) begin(p *place) bool {
	own := p
	if p.undotted != nil {
		own, q.isDotted = p.undotted, true
	}
	if own.seen == q.event || p.depth > maxDepth {
		return false
	}
	own.seen = q.event
	o := opened{place: p, start: -1, taken: q.taken, first: len(q.names)}
	switch p.use {
	case asField:
		o.start = len(q.out)
		q.out = append(append(q.out, p.header...), 0, 0, 0, 0)
		q.out[o.start] = byte(bson.TypeEmbeddedDocument)
	case asMember:
		q.beginMember(p, bson.TypeEmbeddedDocument)
		o.first = len(q.names)
		fallthrough
	case asMeta:
		o.start = len(q.metas)
		q.metas = append(q.metas, 0, 0, 0, 0)
	default:
		q.isStored = q.isStored || p.fields
	}
	q.open = append(q.open, o)
	return true
}

// end ends the innermost object.
func (q *quick) end() bool {
	last := len(q.open) - 1
	o := &q.open[last]
	if q.open = q.open[:last]; o.start < 0 {
		return true
	}
	if o.place.inMeta() {
		return q.endMeta(o)
	}
	q.out = q.endObject(q.out, o.start, o.place.header, o.taken, o.place.atTop)
	return len(q.out) == o.start || !o.place.reserved
}

// endMeta ends an object in meta.
func (q *quick) endMeta(o *opened) bool {
	if !q.takeMembers(q.metas, o.first, true) {
		return false
	}
	q.metas = rawbson.EndDocument(q.metas, o.start)
	if o.place.use == asMeta {
		q.parts[o.place.part] = metaSpan{bson.TypeEmbeddedDocument, o.start, len(q.metas)}
		q.taken++
	}
	return true
}

// beginMember begins a member of an object in meta.
func (q *quick) beginMember(p *place, kind bson.Type) {
	at := len(q.metas)
	q.names, q.starts = append(q.names, p.name()), append(q.starts, at)
	q.metas = append(q.metas, p.header...)
	q.metas[at] = byte(kind)
}

// kept counts a field. False means that the field has the name of the stored time or meta.
func (q *quick) kept(p *place) bool {
	if p.atTop {
		q.topCount++
	}
	return !p.reserved
}

// appendValue appends the value at i and returns its kind. An object or array has the given depth. normal means that the members
// of objects are sorted by name, as in meta.
func (q *quick) appendValue(out []byte, i, depth int, normal bool) ([]byte, bson.Type, int) {
	switch c := q.text[i]; {
	case c == '"':
		if q.numbers && !normal {
			return out, bson.TypeString, unknown // a rare case, a text in an array
		}
		out, i = q.appendString(out, i)
		return out, bson.TypeString, i
	case c-'0' <= 9 || c == '-':
		value, kind, end := scanNumber(q.text, i)
		return appendScanned(out, kind, value), kind, end
	case c == '[':
		out, i = q.appendArray(out, i, depth, normal)
		return out, bson.TypeArray, i
	case c == '{' && q.wraps(i):
		return q.appendWrapped(out, i, depth)
	case c == '{':
		out, i = q.appendObject(out, i, depth, normal)
		return out, bson.TypeEmbeddedDocument, i
	}
	kind, value, end := scanWord(q.text, i)
	if kind == bson.TypeBoolean {
		out = append(out, value)
	}
	return out, kind, end
}

func (q *quick) appendString(out []byte, i int) ([]byte, int) {
	end, how := scanString(q.text, i+1)
	if end < 0 {
		return out, unknown
	}
	if how == plain {
		return rawbson.AppendString(out, q.text[i+1:end]), end + 1
	}
	start := len(out)
	out, ok := appendUnquoted(append(out, 0, 0, 0, 0), q.text[i:end+1])
	if !ok {
		return out, unknown
	}
	out = append(out, 0)
	binary.LittleEndian.PutUint32(out[start:], uint32(len(out)-start-4))
	return out, end + 1
}

func (q *quick) appendArray(out []byte, i, depth int, normal bool) ([]byte, int) {
	if depth > maxDepth {
		return out, unknown
	}
	start := len(out)
	out = append(out, 0, 0, 0, 0)
	i = skipSpace(q.text, i+1)
	if i < len(q.text) && q.text[i] == ']' {
		return rawbson.EndDocument(out, start), i + 1
	}
	for n := 0; i < len(q.text); n++ {
		at := len(out)
		out = rawbson.AppendIndexHeader(out, 0, n)
		var kind bson.Type
		if out, kind, i = q.appendValue(out, i, depth+1, normal); i < 0 {
			return out, unknown
		}
		out[at] = byte(kind)
		more, next := q.separator(i, ']')
		if i = next; !more {
			return rawbson.EndDocument(out, start), i
		}
	}
	return out, unknown
}

// separator reads what follows a member. A comma means that more members follow, and next is the index of the next value or name.
// The closing bracket means that no more follow, and next is the index behind it. For anything else it returns false and unknown.
func (q *quick) separator(i int, closing byte) (more bool, next int) {
	if i = skipSpace(q.text, i); i == len(q.text) {
		return false, unknown
	}
	switch q.text[i] {
	case ',':
		return true, skipSpace(q.text, i+1)
	case closing:
		return false, i + 1
	}
	return false, unknown
}

// appendObject appends an object in an array or in meta.
func (q *quick) appendObject(out []byte, i, depth int, normal bool) ([]byte, int) {
	if depth > maxDepth {
		return out, unknown
	}
	start, first := len(out), len(q.names)
	out = append(out, 0, 0, 0, 0)
	i = skipSpace(q.text, i+1)
	if i < len(q.text) && q.text[i] == '}' {
		return rawbson.EndDocument(out, start), i + 1
	}
	for i < len(q.text) {
		name, next := q.name(i)
		if next < 0 || !isUsualName(name) || bytes.IndexByte(name, '.') >= 0 {
			return out, unknown
		}
		q.names, q.starts = append(q.names, name), append(q.starts, len(out))
		at := len(out)
		out = append(append(append(out, 0), name...), 0)
		var kind bson.Type
		if out, kind, i = q.appendValue(out, next, depth+1, normal); i < 0 {
			return out, unknown
		}
		if out[at] = byte(kind); kind == bson.TypeNull && q.noNulls && !normal {
			return out, unknown // a rare case, a null in an object in an array
		}
		more, next := q.separator(i, '}')
		if i = next; more {
			continue
		}
		if i >= 0 && !q.takeMembers(out, first, normal) {
			i = unknown
		}
		return rawbson.EndDocument(out, start), i
	}
	return out, unknown
}

// name reads the name at i and its colon. It returns the index of the value, which has at least one byte.
func (q *quick) name(i int) (name []byte, next int) {
	text := q.text
	if text[i] != '"' {
		return nil, unknown
	}
	end, how := scanString(text, i+1)
	if end < 0 || how != plain {
		return nil, unknown
	}
	name = text[i+1 : end]
	if i = skipSpace(text, end+1); i == len(text) || text[i] != ':' {
		return nil, unknown
	}
	if i = skipSpace(text, i+1); i == len(text) {
		return nil, unknown
	}
	return name, i
}

// takeMembers checks the members of an object at the end of out, and removes them from names and starts. The members begin at the
// index first. False means that a name occurs twice. For a normal form it sorts the members by name.
func (q *quick) takeMembers(out []byte, first int, normal bool) bool {
	names, starts := q.names[first:], q.starts[first:]
	q.names, q.starts = q.names[:first], q.starts[:first]
	switch {
	case ascend(names):
		return true
	// Most objects have at most two members.
	case normal && len(names) == 2:
		q.spare = append(q.spare[:0], out[starts[0]:starts[1]]...)
		copy(out[starts[0]+copy(out[starts[0]:], out[starts[1]:]):], q.spare)
		return string(names[0]) != string(names[1])
	case normal:
		return q.sort(out, names, starts)
	}
	_, found := findDuplicate(names)
	return !found
}

// ascend reports whether each name is greater than the name before it.
func ascend(names [][]byte) bool {
	for i := 1; i < len(names); i++ {
		if bytes.Compare(names[i-1], names[i]) >= 0 {
			return false
		}
	}
	return true
}

// member is a member of an object that is being sorted.
type member struct{ name, element []byte }

// sort sorts the members at the end of out. starts holds where they begin. False means that a name occurs twice.
func (q *quick) sort(out []byte, names [][]byte, starts []int) bool {
	begin, end := starts[0], len(out)
	q.spare = append(q.spare[:0], out[begin:]...)
	q.members = slices.Grow(q.members[:0], len(names))[:len(names)]
	for i := len(names) - 1; i >= 0; i-- {
		q.members[i] = member{names[i], q.spare[starts[i]-begin : end-begin]}
		end = starts[i]
	}
	if len(names) > fewNames {
		slices.SortFunc(q.members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	} else {
		sortFew(q.members)
	}
	at := begin
	for i := range q.members {
		m := &q.members[i]
		if i > 0 && bytes.Equal(m.name, q.members[i-1].name) {
			return false
		}
		at += copy(out[at:], m.element)
	}
	return true
}

// sortFew sorts a few members by insertion.
func sortFew(members []member) {
	for i := 1; i < len(members); i++ {
		for j := i; j > 0 && string(members[j].name) < string(members[j-1].name); j-- {
			members[j], members[j-1] = members[j-1], members[j]
		}
	}
}

// skip skips the value at i. The value must only be JSON that BSON can hold.
func (q *quick) skip(i, depth int) int {
	switch c := q.text[i]; {
	case c == '"':
		var end int
		q.spare, end = q.appendString(q.spare[:0], i)
		return end
	case c-'0' <= 9 || c == '-':
		_, _, end := scanNumber(q.text, i)
		return end
	case c == '[':
		return q.skipMembers(i, depth, ']')
	case c == '{' && q.wraps(i):
		var end int
		q.spare, _, end = q.appendWrapped(q.spare[:0], i, depth)
		return end
	case c == '{':
		q.isOpaque = true
		return q.skipMembers(i, depth, '}')
	}
	_, _, end := scanWord(q.text, i)
	return end
}

// skipMembers skips an array or an object.
func (q *quick) skipMembers(i, depth int, closing byte) int {
	if depth > maxDepth {
		return unknown
	}
	i = skipSpace(q.text, i+1)
	if i < len(q.text) && q.text[i] == closing {
		return i + 1
	}
	for i < len(q.text) {
		if closing == '}' {
			var name []byte
			if name, i = q.name(i); i < 0 || q.nest && bytes.IndexByte(name, '.') >= 0 || q.extended && len(name) > 0 && name[0] == '$' {
				return unknown
			}
		}
		if i = q.skip(i, depth+1); i < 0 {
			return unknown
		}
		more, next := q.separator(i, closing)
		if i = next; !more {
			return i
		}
	}
	return unknown
}
