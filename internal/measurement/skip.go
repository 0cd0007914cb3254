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

// condition is a condition of EVENT_SKIP. An event meets "path" if it has a value there, and "!path" if it has none. It meets
// "path=text" if its value is that text, number or truth value. It meets "path!=text" if it does not meet "path=text". Null is no
// value.
type condition struct {
	path     string
	names    []string
	text     string
	compares bool // compares the value with text
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
	switch {
	case c.path == "" || strings.HasPrefix(c.path, "!"):
		return c, errors.New("is not a condition: write path, !path, path=value or path!=value")
	case strings.ContainsAny(c.path, "<>\"") || strings.HasPrefix(c.text, "="):
		return c, errors.New("compares in a way that is not supported: write path=value or path!=value, and separate several conditions by commas")
	case len(c.text) > 1 && strings.ContainsAny(c.text[:1], "\"'") && c.text[0] == c.text[len(c.text)-1]:
		return c, errors.New("has a value in quotes, which would be part of the value: write it without quotes")
	case c.compares && c.text == "null":
		return c, errors.New("compares with null, which is no value: write !" + c.path + " for events without a value")
	}
	return c, nil
}

// isOn reports whether a condition examines one of the lists, or an object around a list. Such a condition must see the document
// before its lists are taken apart.
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

// isWritten reports whether a text writes a value.
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
