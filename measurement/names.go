package measurement

import (
	"bytes"
	"slices"
)

// fewNames is up to how many names each is compared with each.
const fewNames = 16

// checkName refuses names that an update of a bucket could not address.
func (d *Decoder) checkName(name []byte) *DecodeError {
	switch {
	case len(name) == 0:
		return newError(BadFieldName, string(d.path), "it holds a field without a name: name it")
	case name[0] == '$':
		return newError(BadFieldName, d.path.to(name), "names must not begin with a dollar sign: rename the field, "+
			"or set EVENT_FORMAT=extjson if this is Extended JSON")
	case d.dotted && bytes.IndexByte(name, '.') >= 0:
		return newError(BadFieldName, d.path.to(name), "names must not hold dots: rename the field, or set EVENT_DOTTED_NAMES=nest")
	}
	return nil
}

// checkDuplicates refuses an object with two fields of one name. Its names are those from first on; they are taken off.
func (d *Decoder) checkDuplicates(first int) *DecodeError {
	names := d.names[first:]
	d.names = d.names[:first]
	if name, found := findDuplicate(names); found {
		return duplicateField(d.path.to(name))
	}
	return nil
}

func duplicateField(path string) *DecodeError {
	return newError(DuplicateField, path, "the event has this field more than once, and only one could be stored: "+
		"rename or drop the others")
}

// findDuplicate returns a name that comes twice. It may change the order of the names.
func findDuplicate(names [][]byte) (name []byte, found bool) {
	if len(names) <= fewNames {
		for i, name := range names {
			for _, other := range names[:i] {
				if string(name) == string(other) {
					return name, true
				}
			}
		}
		return nil, false
	}
	slices.SortFunc(names, bytes.Compare)
	for i, name := range names[1:] {
		if bytes.Equal(name, names[i]) {
			return name, true
		}
	}
	return nil, false
}
