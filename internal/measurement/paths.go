package measurement

import (
	"cmp"
	"slices"
	"strings"
)

// role says what becomes of the value to which a path leads.
type role uint8

// The roles.
const (
	through   role = iota // the path only leads on to others
	isTime                // the measurement's time
	isMeta                // meta, or a part of it
	isDropped             // left out
)

// node is a node of the tree that an event's paths make. One walk over the event finds the values of all paths.
type node struct {
	name     []byte
	children []node
	role     role
	part     int  // for meta, the index of its part; for the time, the rank of its path
	onRoot   bool // the root or an object on the way to it
	isRoot   bool // the object to which the paths are relative
	isStored bool // the object whose fields become the measurement's
	toPart   bool // a path of one of several parts of meta leads through here, and must not end in an array
}

// nodeOf returns the node of a name. Nil means that no path leads there.
func nodeOf(nodes []node, name []byte) *node {
	for i := range nodes {
		// Names are not empty. Most differ in their length or their last byte.
		if n := nodes[i].name; len(n) == len(name) && n[len(n)-1] == name[len(n)-1] && string(n) == string(name) {
			return &nodes[i]
		}
	}
	return nil
}

// grow returns the node of a path below this one, and adds it if it is missing. Pointers to nodes are valid until the next grow.
func (n *node) grow(path string) *node {
	for name := range strings.SplitSeq(path, ".") {
		next := nodeOf(n.children, []byte(name))
		if next == nil {
			n.children = append(n.children, node{name: []byte(name)})
			next = &n.children[len(n.children)-1]
		}
		n = next
	}
	return n
}

// paths say where the parts of a measurement lie in an event. All are dotted paths from the event's top.
type paths struct {
	event  node
	times  []string // in the order in which they count. Empty means the record's timestamp.
	root   string   // Empty means the event itself.
	stored string   // path of the object whose fields are stored. Empty means the event itself.
	meta   []metaPart
	joined bool // meta is an object of its parts, not the value of its only part
	// indexed means that the path of a part has a bracket. If an event lacks the part, only lostPart knows whether this is an error.
	indexed bool

	ofRecord bool // at least one path leads to the record's key or headers
	inHeader bool // at least one path to the time leads to a header
}

// metaPart is a value of which meta is made, with its name.
type metaPart struct {
	name, text, path string
	source           source
	inRecord         string // the path or name in the record's key or headers
}

// newPaths compiles valid options.
func newPaths(o *Options) paths {
	p := paths{times: o.times(), root: o.Root, stored: o.Root, joined: len(o.MetaFields) > 0}
	if o.Fields != "" {
		p.stored = o.absolute(o.Fields)
	}
	if o.MetaFrom == MetaFromValue {
		p.meta = o.metaParts()
	}
	slices.SortFunc(p.meta, func(a, b metaPart) int { return cmp.Compare(a.name, b.name) })
	for rank, path := range p.times {
		if isOfRecord(path) {
			p.ofRecord, p.inHeader = true, true
			continue
		}
		leaf := p.event.grow(path)
		leaf.role, leaf.part = isTime, rank
	}
	for i, part := range p.meta {
		if part.source != fromEvent {
			p.ofRecord = true
			continue
		}
		p.indexed = p.indexed || p.joined && strings.Contains(part.path, "[")
		leaf := p.event.grow(part.path)
		leaf.role, leaf.part = isMeta, i
	}
	for _, path := range o.Drop {
		p.event.grow(o.absolute(path)).role = isDropped
	}
	p.mark()
	return p
}

// mark marks the root, the objects that lead to it, and the stored object.
func (p *paths) mark() {
	root := &p.event
	if p.root != "" {
		for name := range strings.SplitSeq(p.root, ".") {
			root = root.grow(name)
			root.onRoot = true
		}
	}
	root.isRoot = true
	stored := &p.event
	if p.stored != "" {
		stored = stored.grow(p.stored)
	}
	stored.isStored = true
	if p.joined {
		p.event.markParts()
	}
}

// markParts marks the nodes through which paths of parts of meta lead.
func (n *node) markParts() bool {
	for i := range n.children {
		n.toPart = n.children[i].markParts() || n.toPart
	}
	return n.toPart || n.role == isMeta
}

// absolute returns a path from the event's top. Paths are relative to the root, unless they begin with a slash.
func (o *Options) absolute(path string) string {
	if o.Root == "" || path == "" || isOfRecord(path) {
		return path
	}
	if whole, ok := strings.CutPrefix(path, "/"); ok {
		return whole
	}
	return o.Root + "." + path
}

// times returns the paths to the time from the event's top, in the order in which they count.
func (o *Options) times() (list []string) {
	if o.TimeField == "" {
		return nil
	}
	for path := range strings.SplitSeq(o.TimeField, "|") {
		list = append(list, o.absolute(strings.TrimSpace(path)))
	}
	return list
}

// metaParts returns the parts of meta, in the order of the options.
func (o *Options) metaParts() (parts []metaPart) {
	if len(o.MetaFields) == 0 {
		part := metaPart{text: o.MetaField, path: o.absolute(o.MetaField)}
		part.source, part.inRecord = splitSource(o.MetaField)
		return []metaPart{part}
	}
	for _, text := range o.MetaFields {
		name, path := splitPart(text)
		part := metaPart{name: name, text: text, path: o.absolute(path)}
		part.source, part.inRecord = splitSource(path)
		parts = append(parts, part)
	}
	return parts
}

// splitPart reads a part of meta, which is "name=path", or a path whose last name becomes the part's name.
func splitPart(text string) (name, path string) {
	name, path, renamed := strings.Cut(text, "=")
	if !renamed {
		path = strings.TrimSpace(text)
		if name = path[strings.LastIndexAny(path, "./")+1:]; isOfRecord(path) {
			name = sourceName(path)
		}
	}
	return strings.TrimSpace(name), strings.TrimSpace(path)
}

// PartNames returns the names of the parts of meta, in the order of MetaFields.
func (o Options) PartNames() (names []string) {
	for _, text := range o.MetaFields {
		name, _ := splitPart(text)
		names = append(names, name)
	}
	return names
}
