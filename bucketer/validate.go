package bucketer

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by the errors about measurements that are not what a Decoder makes.
var ErrMalformed = errors.New("malformed measurement")

// Bounds of what MongoDB takes.
const (
	maxDocument = 16 << 20 // bytes of a document
	// overhead is more than a bucket of one measurement has besides three times its elements and its meta.
	overhead = 4 << 10
	// fieldOverhead is what a column of one value takes besides its name and the value: an object around it, its index.
	fieldOverhead = 8
)

// TooLargeError says that a measurement does not fit a bucket of its own, which holds it three times: as data, as
// minimum and as maximum.
type TooLargeError struct {
	Size, Max int64 // bytes of the bucket it would make
}

// Error is one sentence with both sizes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a bucket with this measurement alone would have %d bytes, MongoDB takes %d", e.Size, e.Max)
}

// checkSize returns a *TooLargeError for elements that cannot be stored, with a meta of this size.
func checkSize(elements []byte, meta int) error {
	size := int64(overhead + meta + 3*len(elements))
	if size <= maxDocument/4 {
		return nil // also with what each field adds: it is less than what it takes itself
	}
	for rest := elements; len(rest) > 0; size += fieldOverhead {
		_, after, ok := readElement(rest)
		if !ok {
			break // validate says so
		}
		rest = after
	}
	if size > maxDocument {
		return &TooLargeError{Size: size, Max: maxDocument}
	}
	return nil
}

// validate checks that elements are well-formed and have names that can be the names of columns, each once.
func (c *Catalog) validate(elements []byte) error {
	count := 0
	for rest := elements; len(rest) > 0; count++ {
		e, after, ok := readElement(rest)
		if !ok {
			return fmt.Errorf("%w: its elements are not BSON", ErrMalformed)
		}
		rest = after
		if !isColumnName(e.name) || string(e.name) == c.options.Collection.TimeField {
			return fmt.Errorf("%w: no column can be named %q", ErrMalformed, e.name)
		}
		if isNested(e.kind) && (*schema)(nil).check(e.kind, e.value, 1) == malformed {
			return fmt.Errorf("%w: %q is not BSON or deeper than %d", ErrMalformed, e.name, maxDepth)
		}
	}
	if hasTwins(elements, count) {
		return fmt.Errorf("%w: a name stands twice", ErrMalformed)
	}
	return nil
}

// isColumnName tells names that the path of an update can address as one field.
func isColumnName(name []byte) bool {
	return len(name) > 0 && name[0] != '$' && bytes.IndexByte(name, '.') < 0
}

// hasTwins reports whether two of count elements have the same name.
func hasTwins(elements []byte, count int) bool {
	if count > indexed {
		seen := make(map[string]struct{}, count)
		for rest := elements; len(rest) > 0; {
			e, after, _ := readElement(rest)
			rest = after
			seen[string(e.name)] = struct{}{}
		}
		return len(seen) < count
	}
	for rest := elements; len(rest) > 0; {
		e, after, _ := readElement(rest)
		rest = after
		for others := after; len(others) > 0; {
			other, next, _ := readElement(others)
			others = next
			if bytes.Equal(e.name, other.name) {
				return true
			}
		}
	}
	return false
}
