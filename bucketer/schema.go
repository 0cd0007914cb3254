package bucketer

import (
	"maps"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// maxDepth bounds the nesting of a measurement's fields. MongoDB stores 200 levels in all, and a bucket takes some of them.
const maxDepth = 180

// readValue cuts the value off the first element of b. The element is known to be whole and to have a name of this length.
func readValue(b []byte, name int) (value, []byte) {
	kind, data := bson.Type(b[0]), b[name+2:]
	size := rawbson.Size(kind, data)
	return value{kind: kind, data: data[:size]}, data[size:]
}

// ranks holds timeseries.CanonicalType of every type byte.
var ranks = func() (table [256]int8) {
	for kind := range table {
		table[kind] = int8(timeseries.CanonicalType(bson.Type(kind)))
	}
	return table
}()

// indexed is the number of names up to which a linear search finds them. More names get a map.
const indexed = 16

// schema holds the canonical types of the members of one object or array within a bucket's measurements. A member that was
// never seen may have any type. A schema and the schemas within it belong to one shape.
type schema struct {
	members []member
	index   map[string]int // of members, for an object with more than indexed ones
}

// member is one field of an object or one position of an array.
type member struct {
	name string // empty for a position
	rank int8   // canonical type: timeseries.CanonicalType
	sub  *schema
}

// match is how a value agrees with a schema.
type match uint8

const (
	fits      match = iota // nothing new
	grows                  // some of its members are new
	clashes                // a member has another canonical type
	malformed              // not BSON, or nested too deeply
)

// find returns the index of the member with this name, or -1. The argument hint is its probable index.
func (s *schema) find(name []byte, hint int) int {
	if hint < len(s.members) && s.members[hint].name == string(name) {
		return hint
	}
	if s.index != nil {
		if at, ok := s.index[string(name)]; ok {
			return at
		}
		return -1
	}
	for at := range s.members {
		if s.members[at].name == string(name) {
			return at
		}
	}
	return -1
}

// check compares the members of a nested value with the schema. A nil schema knows no members. check walks the whole value, so
// a value that passes is well-formed.
func (s *schema) check(kind bson.Type, value []byte, depth int) match {
	if depth > maxDepth {
		return malformed
	}
	result, hint := fits, 0
	for rest := rawbson.Content(value); len(rest) > 0; {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			return malformed
		}
		rest = after
		at := -1
		if s != nil {
			at = s.locate(kind, e.Name, hint)
		}
		result = max(result, s.checkMember(at, e, depth))
		if result == malformed {
			return malformed
		}
		hint++
	}
	return result
}

// locate finds a member of an object by its name, and a member of an array by its position.
func (s *schema) locate(kind bson.Type, name []byte, position int) int {
	if kind == bson.TypeEmbeddedDocument {
		return s.find(name, position)
	}
	if position < len(s.members) {
		return position
	}
	return -1
}

func (s *schema) checkMember(at int, e rawbson.Element, depth int) match {
	var sub *schema
	result := grows
	if at >= 0 {
		result = fits
		if known := &s.members[at]; known.rank != ranks[e.Kind] {
			result = clashes
		} else {
			sub = known.sub
		}
	}
	if rawbson.IsNested(e.Kind) {
		result = max(result, sub.check(e.Kind, e.Value, depth+1))
	}
	return result
}

// learn adds the members of a nested value, whose elements have passed check. If a value contradicts itself (an object with a
// name twice), the first member counts. It returns how many bytes of memory that takes.
func (s *schema) learn(kind bson.Type, elements []byte) int64 {
	before, within, hint := s.ownBytes(), int64(0), 0
	for e := range rawbson.All(elements) {
		at := s.locate(kind, e.Name, hint)
		if at < 0 {
			within += s.add(kind, e)
			if kind == bson.TypeArray {
				hint++
			}
			continue
		}
		hint = at + 1
		if known := &s.members[at]; known.rank == ranks[e.Kind] && rawbson.IsNested(e.Kind) {
			within += known.sub.learn(e.Kind, rawbson.Content(e.Value))
		}
	}
	return s.ownBytes() - before + within
}

// add appends a member. An object with many names gets an index. It returns the bytes of memory behind the member.
func (s *schema) add(kind bson.Type, e rawbson.Element) int64 {
	m, bytes := member{rank: ranks[e.Kind]}, int64(0)
	if rawbson.IsNested(e.Kind) {
		m.sub = &schema{}
		bytes = schemaBytes + m.sub.learn(e.Kind, rawbson.Content(e.Value))
	}
	if kind == bson.TypeArray {
		s.members = append(s.members, m)
		return bytes
	}
	m.name = string(e.Name)
	s.members = append(s.members, m)
	switch {
	case len(s.members) <= indexed:
	case s.index == nil:
		s.reindex()
	default:
		s.index[m.name] = len(s.members) - 1
	}
	return bytes + classBytes(len(m.name))
}

// copied returns a deep copy with room for more members.
func (s *schema) copied(more int) schema {
	members := append(make([]member, 0, len(s.members)+more), s.members...)
	for at := range members {
		if sub := members[at].sub; sub != nil {
			own := sub.copied(0)
			members[at].sub = &own
		}
	}
	return schema{members: members, index: maps.Clone(s.index)}
}

// reindex rebuilds the index. For a duplicate name it finds the first member.
func (s *schema) reindex() {
	s.index = make(map[string]int, 2*len(s.members))
	for at := len(s.members) - 1; at >= 0; at-- {
		s.index[s.members[at].name] = at
	}
}

// appendKey appends a text that is unique to this schema.
func (s *schema) appendKey(dst []byte) []byte {
	for i := range s.members {
		m := &s.members[i]
		dst = append(dst, byte(m.rank))
		dst = append(append(dst, m.name...), 0)
		if m.sub != nil {
			dst = append(m.sub.appendKey(append(dst, '{')), '}')
		}
	}
	return dst
}

// bytes is the memory of the schema and of the schemas within it.
func (s *schema) bytes() int64 {
	total := s.ownBytes()
	for i := range s.members {
		total += classBytes(len(s.members[i].name))
		if s.members[i].sub != nil {
			total += s.members[i].sub.bytes()
		}
	}
	return total
}

// ownBytes is the memory of the schema without names and without the schemas within it.
func (s *schema) ownBytes() int64 {
	total := schemaBytes + int64(cap(s.members))*memberBytes
	if s.index != nil {
		total += mapBytes(len(s.index), indexSlot)
	}
	return total
}
