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
	number   writtenNumber // the number that text writes
	compares bool          // compares the value with text
	negated  bool
}

// parseCondition reads a condition.
func parseCondition(text string) (c condition, err error) {
	c.path = text
	if path, value, ok := strings.Cut(text, "="); ok {
		c.compares, c.text = true, strings.TrimSpace(value)
		path, c.negated = strings.CutSuffix(path, "!")
		c.path = strings.TrimSpace(path)
		c.number = parseWritten(c.text)
	} else if path, ok := strings.CutPrefix(text, "!"); ok {
		c.path, c.negated = strings.TrimSpace(path), true
	}
	switch {
	case c.path == "" || strings.HasPrefix(c.path, "!"):
		return c, errors.New("is not a condition: write path, !path, path=value or path!=value")
	case strings.ContainsAny(c.path, "<>\"") || strings.HasPrefix(c.text, "=") || strings.HasPrefix(c.text, "~"):
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
			found = found && c.isWritten(e)
		}
		return found != c.negated
	})
}

// isWritten reports whether the condition's text writes a value. Numbers of all kinds compare by what they are worth.
func (c *condition) isWritten(e rawbson.Element) bool {
	n := &c.number
	switch e.Kind {
	case bson.TypeString:
		return string(rawbson.Text(e.Value)) == c.text
	case bson.TypeBoolean:
		return strconv.FormatBool(e.Value[0] != 0) == c.text
	case bson.TypeInt32, bson.TypeInt64:
		return n.isWhole && n.whole == integerOf(e.Kind, e.Value)
	case bson.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.Value))
		return n.isFloat && (f == n.float || math.IsNaN(f) && math.IsNaN(n.float))
	case bson.TypeDecimal128:
		value, ok := bson.RawValue{Type: e.Kind, Value: e.Value}.Decimal128OK()
		return ok && n.isDecimal && n.decimal == plainDecimal(value)
	}
	return false
}

// writtenNumber is what a text is worth as a number of each kind.
type writtenNumber struct {
	whole                       int64
	float                       float64
	decimal                     string // as plainDecimal writes it
	isWhole, isFloat, isDecimal bool
}

func parseWritten(text string) (n writtenNumber) {
	f, err := strconv.ParseFloat(text, 64)
	n.float, n.isFloat = f, err == nil
	whole, err := strconv.ParseInt(text, 10, 64)
	n.whole, n.isWhole = whole, err == nil
	value, err := bson.ParseDecimal128(text)
	if err != nil {
		return n
	}
	n.decimal, n.isDecimal = plainDecimal(value), true
	n.isFloat = n.isFloat && (n.float != 0 || n.decimal == "0E0") // 1e-400 is not 0
	if !n.isWhole {                                               // such as 1.0 or 1e3
		digits, exponent, _ := strings.Cut(n.decimal, "E")
		if zeros, err := strconv.Atoi(exponent); err == nil && zeros >= 0 && zeros < 19 {
			whole, err = strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
			n.whole, n.isWhole = whole, err == nil
		}
	}
	return n
}

// plainDecimal writes a decimal so that equal numbers have the same text: 1.50 is 15E-1, and both zeros are 0E0.
func plainDecimal(d bson.Decimal128) string {
	digits, exponent, err := d.BigInt()
	if err != nil {
		return strings.TrimPrefix(d.String(), "+") // NaN or an infinity
	}
	text := digits.String()
	if digits.Sign() == 0 {
		return "0E0"
	}
	significant := strings.TrimRight(text, "0")
	return significant + "E" + strconv.Itoa(exponent+len(text)-len(significant))
}
