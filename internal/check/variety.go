package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// namedFields is how many fields are named.
const namedFields = 3

// Field is the number of distinct values of a field of meta.
type Field struct {
	// Path is dotted. It is empty for a meta that is not an object.
	Path   string `json:"path"`
	Values int    `json:"values"`
	// Seen counts the measurements that have the field.
	Seen int `json:"seen"`
}

// Name returns the field's name for people.
func (f Field) Name() string {
	if f.Path == "" {
		return "meta"
	}
	return "meta." + f.Path
}

// valuesCounted is the number of values of a field of meta up to which the count is exact.
const valuesCounted = 1 << 13

// variety counts distinct metas with their partitions, and distinct values of their fields.
type variety struct {
	metas *distinct
	paths map[string]*distinct
}

func newVariety() *variety {
	return &variety{metas: newDistinct(seriesCounted), paths: map[string]*distinct{}}
}

// add counts one meta. Type 0 means absent.
func (v *variety) add(meta bson.RawValue, partition int32) {
	v.metas.add(hashMeta(meta), uint64(partition))
	if meta.Type != 0 {
		v.walk("", meta)
	}
}

// has reports whether some meta had a field of this name.
func (v *variety) has(name string) bool {
	for path := range v.paths {
		if path == name || strings.HasPrefix(path, name+".") {
			return true
		}
	}
	return false
}

// series returns the number of distinct metas.
func (v *variety) series() int { return v.metas.values() }

// spread returns how many metas came in several partitions.
func (v *variety) spread() (n int) {
	for _, o := range v.metas.kept {
		if o.mixed {
			n++
		}
	}
	return n << v.metas.bits
}

func (v *variety) walk(path string, value bson.RawValue) {
	if value.Type == bson.TypeEmbeddedDocument || value.Type == bson.TypeArray {
		elements, err := bson.Raw(value.Value).Elements()
		if err == nil && len(elements) > 0 {
			v.walkElements(path, elements, value.Type == bson.TypeArray)
			return
		}
	}
	one := v.paths[path]
	if one == nil {
		if len(v.paths) == mostPaths {
			return
		}
		one = newDistinct(valuesCounted)
		v.paths[path] = one
	}
	one.add(hashMeta(value), 0)
}

func (v *variety) walkElements(path string, elements []bson.RawElement, array bool) {
	for i, e := range elements {
		name := e.Key()
		if array {
			name = strconv.Itoa(i)
		}
		if path != "" {
			name = path + "." + name
		}
		v.walk(name, e.Value())
	}
}

// fields returns the most varied fields, the most varied first.
func (v *variety) fields(most int) []Field {
	var list []Field
	for _, path := range slices.Sorted(maps.Keys(v.paths)) {
		list = append(list, Field{Path: path, Values: v.paths[path].values(), Seen: v.paths[path].seen})
	}
	slices.SortStableFunc(list, func(a, b Field) int { return cmp.Compare(b.Values, a.Values) })
	return list[:min(len(list), most)]
}

// MostVaried names the fields with the most distinct values among these metas, with their numbers: "session 4998, host 12 (of
// 5000 series)".
func MostVaried(metas []bson.RawValue) string {
	v := newVariety()
	for _, meta := range metas {
		v.add(meta, 0)
	}
	var named []string
	for _, f := range v.fields(namedFields) {
		named = append(named, fmt.Sprintf("%s %d", cmp.Or(f.Path, "meta itself"), f.Values))
	}
	if named == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (of %d series)", strings.Join(named, ", "), len(metas))
}
