package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// leaf is a field of a sample's events, and what was seen of it.
type leaf struct {
	path    string
	seen    int
	texts   int
	numbers int
	objects int
	values  map[string]struct{} // texts and numbers
	example any
}

// leavesOf lists the fields of objects, and those of the objects in them down to so many levels.
func leavesOf(list []object, levels int) []*leaf {
	found := map[string]*leaf{}
	for _, o := range list {
		addLeaves(found, o, "", levels)
	}
	leaves := slices.Collect(maps.Values(found))
	slices.SortFunc(leaves, func(a, b *leaf) int { return strings.Compare(a.path, b.path) })
	return leaves
}

func addLeaves(found map[string]*leaf, o object, prefix string, levels int) {
	for name, value := range o {
		if name == "" || name[0] == '$' || strings.ContainsAny(name, ",= ") {
			continue
		}
		path := prefix + name
		one := found[path]
		if one == nil {
			one = &leaf{path: path, values: map[string]struct{}{}, example: value}
			found[path] = one
		}
		one.seen++
		switch v := value.(type) {
		case string, json.Number:
			one.values[fmt.Sprint(v)] = struct{}{}
			if _, isText := v.(string); isText {
				one.texts++
			} else {
				one.numbers++
			}
		case object:
			if _, isDate := v["$date"]; isDate {
				one.texts++
				continue
			}
			one.objects++
			if levels > 1 {
				addLeaves(found, v, path+".", levels-1)
			}
		}
	}
}

// plain is the last name of a path in lower-case letters and digits: @timestamp and time_stamp are timestamp.
func plain(path string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, lastName(path))
}

// lastName is the last name of a path.
func lastName(path string) string { return path[strings.LastIndexAny(path, "./")+1:] }

// in tells whether a field of this name is in a list of names, which are separated by spaces.
func in(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
