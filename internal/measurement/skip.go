package measurement

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// condition is one of EVENT_SKIP: "path" is met by an event that has a value there, "!path" by one without, "path=text" by one
// whose value is that text, number or truth value, "path!=text" by all others. Null is no value.
type condition struct {
	path     string
	names    []string
	text     string
	compares bool // the value with a text
	negated  bool
}

// parseCondition reads a condition.
func parseCondition(text string) (c condition, err error) {
	c.path = text
	if path, value, ok := strings.Cut(text, "="); ok {
		c.compares, c.text = true, strings.TrimSpace(value)
		path, c.negated = strings.CutSuffix(path, "!")
		c.path = strings.TrimSpace(path)
	} else if path, ok := strings.CutPrefix(text, "!"); ok {
		c.path, c.negated = strings.TrimSpace(path), true
	}
	if c.path == "" || strings.HasPrefix(c.path, "!") {
		return c, errors.New("is no condition: write path, !path, path=value or path!=value")
	}
	return c, nil
}

// isOn reports whether a condition looks at one of the lists, or at what holds it. Such a condition must see the document before
// it is taken apart.
func (c *condition) isOn(lists []listPath) bool {
	path := strings.Join(c.names, ".")
	return slices.ContainsFunc(lists, func(l listPath) bool { return isPathPrefix(path, l.path) })
}

// meets reports whether an event meets one of the conditions.
func (s *stages) meets(conditions []condition, event []byte) bool {
	return slices.ContainsFunc(conditions, func(c condition) bool {
		e, found := lookUp(event, c.names)
		found = found && e.Kind != bson.TypeNull
		if c.compares {
			found = found && isWritten(e, c.text)
		}
		return found != c.negated
	})
}

// isWritten reports whether a value is what a text says.
func isWritten(e rawbson.Element, text string) bool {
	switch e.Kind {
	case bson.TypeString:
		return string(rawbson.Text(e.Value)) == text
	case bson.TypeBoolean:
		return strconv.FormatBool(e.Value[0] != 0) == text
	case bson.TypeInt32, bson.TypeInt64:
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && n == integerOf(e.Kind, e.Value)
	case bson.TypeDouble:
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && f == math.Float64frombits(binary.LittleEndian.Uint64(e.Value))
	}
	return false
}
