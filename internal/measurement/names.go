package measurement

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
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
