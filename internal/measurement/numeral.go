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
	NumbersInJSON Numbers = "json" // as JSON does; texts stay texts
	NumbersInText Numbers = "text" // also in texts, in fields
)

// commaNumber finds a number with a comma in it, be it the decimal mark or one between thousands.
var commaNumber = regexp.MustCompile(`^[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+$|^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$`)

// appendNumeral appends the number that a text writes. Kind 0: the text writes none, and stays a text. Blanks around it and a plus
// do not count; zeros before it make it a text, for 007 is a name.
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
	case "NaN", "nan":
		return bson.TypeDouble, appendDouble(dst, math.NaN())
	case "Infinity", "infinity", "Inf", "inf":
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

// isNumber reports whether a text is a number as JSON writes them.
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

// mayBeNumeral is false of texts that are no numbers by their first byte, and so need not be looked at.
func mayBeNumeral(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	switch c := text[0]; c {
	case '+', '-', ' ', '\t', '\n', '\r', '\v', '\f', 'N', 'n', 'I', 'i':
		return true
	default:
		return c-'0' <= 9 || c >= 0x80 // a blank may be beyond ASCII
	}
}

// copyText copies a field that is a text, as a number if it writes one and the settings say so.
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
			return newError(BadNumber, string(e.Name), "%s has a comma, and EVENT_NUMBERS=text reads numbers with a point: have it sent with a point, or leave the field out with EVENT_DROP", quoteText(text))
		}
	}
	d.out = append(d.out, e.Value...)
	return nil
}
