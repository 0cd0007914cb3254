package check

import "strings"

// view is the evidence of one object of the events, or of the whole events. The object is the root that settings name.
type view struct {
	*evidence
	root string // absolute path. Empty means the event's top.
	n    int    // number of events that have it
}

// whole returns the view of the whole events.
func (e *evidence) whole() view { return view{evidence: e, n: e.objects} }

// below returns the view of an object in this one.
func (v view) below(path string) view {
	return view{evidence: v.evidence, root: v.absolute(path), n: v.field(path).objects}
}

// absolute converts a path of this view to a path from the event's top. A path that begins with a slash begins there already.
func (v view) absolute(path string) string {
	if whole, ok := strings.CutPrefix(path, "/"); ok {
		return whole
	}
	switch "" {
	case v.root:
		return path
	case path:
		return v.root
	}
	return v.root + "." + path
}

// field returns the statistics of a path.
func (v view) field(path string) *field { return v.at(v.absolute(path)) }

// leaf is a field with its path in a view.
type leaf struct {
	*field
	path string
}

// leaves returns the fields of a view, sorted by path.
func (v view) leaves() (list []leaf) {
	prefix := v.absolute("")
	if prefix != "" {
		prefix += "."
	}
	for _, f := range v.list() {
		if path, ok := strings.CutPrefix(f.path, prefix); ok {
			list = append(list, leaf{f, path})
		}
	}
	return list
}

// scalars returns the fields that are not in lists and hold neither objects nor lists.
func (v view) scalars() (list []leaf) {
	for _, l := range v.leaves() {
		if !strings.Contains(l.path, "[]") && l.texts+l.numbers+l.flags+l.nulls == l.seen {
			list = append(list, l)
		}
	}
	return list
}

// These are kinds of values, for has.
const (
	anything = iota
	aText
	anObject
	aList
	aNumber
)

// has reports whether nearly all events have a field of some kind.
func (v view) has(path string, kind int) bool {
	f := v.field(path)
	n := [...]int{f.seen - f.nulls, f.texts, f.objects, f.lists, f.numbers}[kind]
	return v.n > 0 && n*10 >= v.n*9
}

// hasAll is has for several fields.
func (v view) hasAll(kind int, paths ...string) bool {
	for _, path := range paths {
		if !v.has(path, kind) {
			return false
		}
	}
	return true
}

// names returns the names at the top of a view.
func (v view) names() (list []string) {
	for _, l := range v.leaves() {
		if !strings.ContainsAny(l.path, ".[") {
			list = append(list, l.path)
		}
	}
	return list
}
