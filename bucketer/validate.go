package bucketer

import (
	"bytes"
	"errors"
	"fmt"

	"waterwheel/internal/timeseries/rawbson"
)

// ErrMalformed is wrapped by errors about measurements that no Decoder makes.
var ErrMalformed = errors.New("malformed measurement")

// maxDocument is MongoDB's limit for a document, in bytes.
const maxDocument = 16 << 20

// validate checks that elements are well-formed, and that their names can name columns and are unique.
func (c *Catalog) validate(elements []byte) error {
	count := 0
	for rest := elements; len(rest) > 0; count++ {
		e, after, ok := rawbson.Read(rest)
		if !ok {
			return fmt.Errorf("%w: its fields are not valid BSON", ErrMalformed)
		}
		rest = after
		if !isColumnName(e.Name) || string(e.Name) == c.options.Collection.TimeField {
			return fmt.Errorf("%w: a field cannot have the name %q", ErrMalformed, e.Name)
		}
		if rawbson.IsNested(e.Kind) && (*schema)(nil).check(e.Kind, e.Value, 1) == malformed {
			return fmt.Errorf("%w: the field %q is not valid BSON, or is nested deeper than %d levels", ErrMalformed, e.Name, maxDepth)
		}
	}
	if hasTwins(elements, count) {
		return fmt.Errorf("%w: two fields have the same name", ErrMalformed)
	}
	return nil
}

// isColumnName reports whether the path of an update can address a name as one field.
func isColumnName(name []byte) bool {
	return len(name) > 0 && name[0] != '$' && bytes.IndexByte(name, '.') < 0
}

// hasTwins reports whether two of count elements have the same name.
func hasTwins(elements []byte, count int) bool {
	if count > indexed {
		seen := make(map[string]struct{}, count)
		for e := range rawbson.All(elements) {
			seen[string(e.Name)] = struct{}{}
		}
		return len(seen) < count
	}
	for rest := elements; len(rest) > 0; {
		var e rawbson.Element
		rest = e.Cut(rest)
		for other := range rawbson.All(rest) {
			if bytes.Equal(e.Name, other.Name) {
				return true
			}
		}
	}
	return false
}
