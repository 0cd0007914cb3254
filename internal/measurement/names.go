package measurement

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// fewNames is the largest number of names that are compared pairwise.
const fewNames = 16

// checkName refuses names that an update of a bucket cannot address.
func (d *Decoder) checkName(name []byte) *DecodeError {
	if len(name) > 0 && name[0] != '$' && !d.dotted {
		return nil
	}
	return d.checkOddName(name)
}

// checkOddName is the slow path of checkName.
func (d *Decoder) checkOddName(name []byte) *DecodeError {
	switch {
	case len(name) == 0:
		return newError(BadFieldName, "", "the object has a field with an empty name: give the field a name")
	case name[0] == '$':
		wayOut := "rename the field"
		switch {
		case d.options.Format == JSON && isExtendedName(name):
			return newError(BadFieldName, string(name), "this is Extended JSON: set EVENT_FORMAT=extjson")
		case d.options.Format == JSON:
			wayOut += ", or set EVENT_FORMAT=extjson if this is Extended JSON"
		}
		return newError(BadFieldName, string(name), "%s: %s", dollarName, wayOut)
	case d.dotted && bytes.IndexByte(name, '.') >= 0:
		return newError(BadFieldName, string(name), "names must not contain dots: rename the field, or set EVENT_DOTTED_NAMES=nest")
	}
	return nil
}

// dollarName begins the sentence about a name with a dollar sign.
const dollarName = "names must not begin with a dollar sign"

// withWayOut adds a way out to an error about a stored field, which is to leave the field out with EVENT_DROP. It does so only if
// a path can lead to the field.
func (d *Decoder) withWayOut(err *DecodeError) *DecodeError {
	if err == nil || err.Reason != BadFieldName || !strings.HasPrefix(err.Detail, dollarName) {
		return err
	}
	if path := d.dropPath(err.Path); path != "" {
		err.Detail = dollarName + ": leave it out with EVENT_DROP='" + path + "'" + strings.Replace(err.Detail[len(dollarName):], ":", ",", 1)
	}
	return err
}

// dropPath turns a path from the record's top into the path for EVENT_DROP. It is empty if EVENT_DROP cannot name the field.
func (d *Decoder) dropPath(path string) string {
	if d.options.Root != "" {
		var within bool
		if path, within = strings.CutPrefix(path, d.options.Root+"."); !within {
			return ""
		}
	}
	for name := range strings.SplitSeq(path, ".") {
		if _, err := strconv.Atoi(name); err == nil || !isNameable([]byte(name)) || strings.Contains(name, "'") {
			// A number may be an index of an array.
			return ""
		}
	}
	return path
}

// isReserved reports whether a stored measurement has its time, meta or exact time under a name.
func (o *Options) isReserved(name []byte) bool {
	return len(name) > 0 && (string(name) == o.StoredTime || string(name) == o.StoredMeta || string(name) == o.TimeExact)
}

// reservedName is the error of a field with the name of the stored time, meta or exact time.
func (d *Decoder) reservedName(name string) *DecodeError {
	what, setting := "time", "MONGODB_TIME_FIELD"
	switch name {
	case d.options.StoredTime:
	case d.options.TimeExact:
		what, setting = "exact time", "EVENT_TIME_EXACT"
	default:
		what, setting = "meta", "MONGODB_META_FIELD"
	}
	drop := name
	if d.options.Fields != "" {
		drop = d.options.Fields + "." + name
	}
	return newError(DuplicateField, name, "every stored measurement has its %s under this name: leave the field out with EVENT_DROP=%s, rename the field, or choose another %s",
		what, drop, setting)
}

// checkDuplicates refuses an object with two fields of one name. The object's names begin at the index first of d.names, and
// checkDuplicates removes them.
func (d *Decoder) checkDuplicates(first int) *DecodeError {
	names := d.names[first:]
	d.names = d.names[:first]
	if name, found := findDuplicate(names); found {
		return duplicateField(string(name))
	}
	return nil
}

func duplicateField(path string) *DecodeError {
	return newError(DuplicateField, path, "the event has this field more than once, and only one could be stored: "+
		"rename or drop the others")
}

// findDuplicate returns a name that occurs twice. It may change the order of the names.
func findDuplicate(names [][]byte) (name []byte, found bool) {
	if len(names) <= fewNames {
		return findDuplicateOfFew(names)
	}
	slices.SortFunc(names, bytes.Compare)
	for i, name := range names[1:] {
		if bytes.Equal(name, names[i]) {
			return name, true
		}
	}
	return nil, false
}

// findDuplicateOfFew compares a name with the names before it only if one of them has about the same length and ends.
func findDuplicateOfFew(names [][]byte) (name []byte, found bool) {
	var seen uint64
	for i, name := range names {
		n := len(name) // not 0, because checkName refuses empty names
		bit := uint64(1) << ((n ^ int(name[0])<<1 ^ int(name[n-1])<<2) & 63)
		if seen&bit != 0 && slices.ContainsFunc(names[:i], func(other []byte) bool { return bytes.Equal(name, other) }) {
			return name, true
		}
		seen |= bit
	}
	return nil, false
}

// nester rewrites events with dotted names at every depth: {"a.b": 1, "a.c": 2} becomes {a: {b: 1, c: 2}}. Fields keep the order
// in which their first names come. The nester refuses an event that gives one path two values.
type nester struct {
	out     []byte
	entries []entry // entries of the open objects
	groups  []group // groups of the open objects
}

// entry is a value and the names that lead to it from the object being written.
type entry struct {
	rawbson.Element // The name may be dotted.
	order           int
}

// group is a run of entries whose paths begin with the same name.
type group struct {
	first, last int // indexes of entries, last excluded
}

// cutPath returns the first name of a dotted path and the rest. The rest is nil if the path has no dot.
func cutPath(path []byte) (name, rest []byte) {
	if i := bytes.IndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return path, nil
}

// nest returns the event without dotted names. The result is valid until the next call.
func (n *nester) nest(event []byte) ([]byte, *DecodeError) {
	n.out, n.entries, n.groups = n.out[:0], n.entries[:0], n.groups[:0]
	if err := n.value(bson.TypeEmbeddedDocument, event, 1); err != nil {
		return nil, err
	}
	return n.out, nil
}

// undot is nest for a document whose names may have dots, if the options say that such names are nested. It reports whether the
// names of the result may still have dots.
func (n *nester) undot(o *Options, document []byte, dotted bool) (out []byte, stillDotted bool, err *DecodeError) {
	if !dotted || o.DottedNames != Nest {
		return document, dotted, nil
	}
	out, err = n.nest(document)
	return out, false, err
}

// value appends a value. An object or array has the given depth.
func (n *nester) value(kind bson.Type, value []byte, depth int) *DecodeError {
	switch kind {
	case bson.TypeEmbeddedDocument:
		first := len(n.entries)
		n.explode(value)
		return n.object(first, depth)
	case bson.TypeArray:
		return n.array(rawbson.Content(value), depth)
	}
	n.out = append(n.out, value...)
	return nil
}

func (n *nester) array(list []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start := len(n.out)
	n.out = append(n.out, 0, 0, 0, 0)
	for i := 0; len(list) > 0; i++ {
		var e rawbson.Element
		list = e.Cut(list)
		n.out = rawbson.AppendIndexHeader(n.out, e.Kind, i)
		if err := n.value(e.Kind, e.Value, depth+1); err != nil {
			return err.within(strconv.Itoa(i))
		}
	}
	n.out = rawbson.EndDocument(n.out, start)
	return nil
}

// explode adds the fields of a document to the entries.
func (n *nester) explode(document []byte) {
	for list := rawbson.Content(document); len(list) > 0; {
		var e rawbson.Element
		list = e.Cut(list)
		n.entries = append(n.entries, entry{e, len(n.entries)})
	}
}

// object appends an object made of the entries from first on, and removes these entries.
func (n *nester) object(first, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep("")
	}
	start, firstGroup := len(n.out), len(n.groups)
	n.out = append(n.out, 0, 0, 0, 0)
	n.group(first)
	for i, last := firstGroup, len(n.groups); i < last; i++ {
		g := n.groups[i]
		name, rest := cutPath(n.entries[g.first].Name)
		if err := n.field(g, name, rest, depth); err != nil {
			return err.within(string(name))
		}
	}
	n.entries, n.groups = n.entries[:first], n.groups[:firstGroup]
	n.out = rawbson.EndDocument(n.out, start)
	return nil
}

// group sorts the entries from first on into groups by their first name. Groups are in the order of their first entries.
func (n *nester) group(first int) {
	entries, firstGroup := n.entries[first:], len(n.groups)
	slices.SortFunc(entries, func(a, b entry) int {
		nameA, _ := cutPath(a.Name)
		nameB, _ := cutPath(b.Name)
		return cmp.Or(bytes.Compare(nameA, nameB), cmp.Compare(a.order, b.order))
	})
	for i := range entries {
		name, _ := cutPath(entries[i].Name)
		if i > 0 {
			if before, _ := cutPath(entries[i-1].Name); bytes.Equal(name, before) {
				n.groups[len(n.groups)-1].last++
				continue
			}
		}
		n.groups = append(n.groups, group{first + i, first + i + 1})
	}
	slices.SortFunc(n.groups[firstGroup:], func(a, b group) int {
		return cmp.Compare(n.entries[a.first].order, n.entries[b.first].order)
	})
}

// field appends the field that a group makes in an object of the given depth. name is its name, and rest is the rest of its first
// path.
func (n *nester) field(g group, name, rest []byte, depth int) *DecodeError {
	if e := n.entries[g.first]; rest == nil && g.last-g.first == 1 {
		n.out = rawbson.AppendHeader(n.out, e.Kind, name)
		return n.value(e.Kind, e.Value, depth+1)
	}
	n.out = rawbson.AppendHeader(n.out, bson.TypeEmbeddedDocument, name)
	first := len(n.entries)
	if !n.merge(g) {
		return duplicateField("")
	}
	return n.object(first, depth+1)
}

// merge adds the values of a group below its name to the entries. False means that two of its values have one path.
func (n *nester) merge(g group) bool {
	undotted := 0
	for i := g.first; i < g.last; i++ {
		e := n.entries[i]
		_, rest := cutPath(e.Name)
		if rest != nil {
			e.Name, e.order = rest, len(n.entries)
			n.entries = append(n.entries, e)
			continue
		}
		if undotted++; undotted > 1 || e.Kind != bson.TypeEmbeddedDocument {
			return false
		}
		n.explode(e.Value)
	}
	return true
}
