package measurement

import (
	"bytes"
	"math"
	"regexp"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// Numbers says how the numbers of events are written.
type Numbers string

// The ways to write numbers.
const (
	NumbersInJSON Numbers = "json" // as in JSON. A text stays a text.
	NumbersInText Numbers = "text" // as in JSON, and in fields also as texts
)

// commaNumber matches a number with a comma, as the decimal mark or between thousands.
var commaNumber = regexp.MustCompile(`^[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+$|^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$`)

// appendNumeral appends the number that a text writes. Kind 0 means that the text writes no number and stays a text. Blanks
// around the number and a plus sign are ignored. A text with leading zeros stays a text, because 007 is a name.
func appendNumeral(dst, text []byte) (kind bson.Type, out []byte) {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return 0, dst
	}
	unsigned := text
	if text[0] == '+' {
		if unsigned = text[1:]; len(unsigned) > 0 && unsigned[0] == '-' {
			return 0, dst
		}
	}
	switch string(bytes.TrimPrefix(unsigned, []byte{'-'})) {
	case "NaN":
		return bson.TypeDouble, appendDouble(dst, math.NaN())
	case "Infinity", "Inf":
		return bson.TypeDouble, appendDouble(dst, math.Inf(1-2*bytes.Count(unsigned[:1], []byte{'-'})))
	}
	if !isNumber(unsigned) {
		return 0, dst
	}
	kind, out, ok := appendNumber(dst, unsigned)
	if !ok {
		return 0, dst
	}
	return kind, out
}

// isNumber reports whether a text is a number in JSON's notation.
func isNumber(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte{'-'})
	whole := countDigits(text)
	if whole == 0 || whole > 1 && text[0] == '0' {
		return false
	}
	if text = text[whole:]; len(text) > 0 && text[0] == '.' {
		n := countDigits(text[1:])
		if n == 0 {
			return false
		}
		text = text[1+n:]
	}
	if len(text) == 0 || text[0]|0x20 != 'e' {
		return len(text) == 0
	}
	if text = text[1:]; len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return len(text) > 0 && countDigits(text) == len(text)
}

func countDigits(text []byte) (n int) {
	for n < len(text) && text[n]-'0' <= 9 {
		n++
	}
	return n
}

// mayBeNumeral reports whether a text may be a number, judged by its first byte.
func mayBeNumeral(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	switch c := text[0]; c {
	case '+', '-', ' ', '\t', '\n', '\r', '\v', '\f', 'N', 'I':
		return true
	default:
		return c-'0' <= 9 || c >= 0x80 // a blank may be a character beyond ASCII
	}
}

// copyText copies a text field. It writes a number instead if the text is a number and the settings ask for numbers.
func (d *Decoder) copyText(e rawbson.Element) *DecodeError {
	text := rawbson.Text(e.Value)
	at := len(d.out)
	d.out = rawbson.AppendHeader(d.out, e.Kind, e.Name)
	if mayBeNumeral(text) {
		kind, out := appendNumeral(d.out, text)
		if kind != 0 {
			d.out = out
			d.out[at] = byte(kind)
			return nil
		}
		if commaNumber.Match(bytes.TrimSpace(text)) {
			return newError(BadNumber, string(e.Name), "%s has a comma, but EVENT_NUMBERS=text reads numbers with a point: send it with a point, or leave the field out with EVENT_DROP", quoteText(text))
		}
	}
	d.out = append(d.out, e.Value...)
	return nil
}
