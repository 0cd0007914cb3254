package measurement

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// appendNumber appends a JSON number as mongosh would store it. An integer becomes an int32 if it fits, else an int64. A larger
// integer, minus zero, and a number with a fraction or an exponent become a double. False means that no finite double holds the
// number.
func appendNumber(dst, text []byte) (bson.Type, []byte, bool) {
	d := parseDecimal(text)
	if n, ok := d.integer(); ok {
		if n == int64(int32(n)) {
			return bson.TypeInt32, binary.LittleEndian.AppendUint32(dst, uint32(n)), true
		}
		return bson.TypeInt64, binary.LittleEndian.AppendUint64(dst, uint64(n)), true
	}
	f, ok := d.float()
	if !ok {
		var err error
		if f, err = strconv.ParseFloat(string(text), 64); err != nil {
			return 0, dst, false
		}
	}
	return bson.TypeDouble, appendDouble(dst, f), true
}

// decimal is a number of at most 19 digits without an exponent.
type decimal struct {
	negative   bool
	digits     uint64 // all digits, without the point
	fraction   int    // digits behind the point
	isDecimal  bool   // False means that the text is another number, or none.
	isFraction bool   // there was a point
}

func parseDecimal(text []byte) (d decimal) {
	if d.negative = len(text) > 0 && text[0] == '-'; d.negative {
		text = text[1:]
	}
	const longest = 19 // 64 bits hold any number of 19 digits
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9' && i < longest:
			d.digits = d.digits*10 + uint64(c-'0')
		case c == '.' && !d.isFraction && i < longest:
			d.isFraction, d.fraction = true, len(text)-i-1
		default:
			return d
		}
	}
	d.isDecimal = len(text) > 1 || len(text) == 1 && !d.isFraction // a point alone is no number
	return d
}

// integer returns the number if it is an integer that 64 bits hold. Minus zero is not.
func (d decimal) integer() (int64, bool) {
	switch {
	case !d.isDecimal || d.isFraction:
		return 0, false
	case d.negative:
		return -int64(d.digits), d.digits > 0 && d.digits <= 1<<63
	}
	return int64(d.digits), d.digits <= math.MaxInt64
}

// float returns the number if a double holds both its digits and its power of ten exactly. One division then rounds correctly.
// This covers most numbers and is several times as quick as strconv.
func (d decimal) float() (float64, bool) {
	if !d.isDecimal || d.digits > 1<<53 || d.fraction >= len(powersOfTen) {
		return 0, false
	}
	f := float64(d.digits) / powersOfTen[d.fraction]
	if d.negative {
		f = -f
	}
	return f, true
}

// powersOfTen are the powers of ten that a double holds exactly.
var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

func appendDouble(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}
