package measurement

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"regexp"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries/rawbson"
)

// appendNumber appends a JSON number as mongosh would store it. An integer becomes an int32 if it fits, else an int64. A larger
// integer, minus zero, and a number with a fraction or an exponent become a double. False means that no finite double holds the
// number.
func appendNumber(dst, text []byte) (bson.Type, []byte, bool) {
	d := parseDecimal(text)
	if n, ok := d.integer(); ok {
		kind, out := appendInteger(dst, n)
		return kind, out, true
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

// appendInteger appends an integer as an int32 if it fits, else as an int64.
func appendInteger(dst []byte, n int64) (bson.Type, []byte) {
	if n == int64(int32(n)) {
		return bson.TypeInt32, binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return bson.TypeInt64, binary.LittleEndian.AppendUint64(dst, uint64(n))
}

// appendUnsigned is appendInteger for an unsigned integer. An integer beyond 63 bits becomes a double, as in JSON.
func appendUnsigned(dst []byte, n uint64) (bson.Type, []byte) {
	if n > math.MaxInt64 {
		return bson.TypeDouble, appendDouble(dst, float64(n))
	}
	return appendInteger(dst, int64(n))
}

// appendScanned appends a number, given as its type and its bits.
func appendScanned(dst []byte, kind bson.Type, bits uint64) []byte {
	if kind == bson.TypeInt32 {
		return binary.LittleEndian.AppendUint32(dst, uint32(bits))
	}
	return binary.LittleEndian.AppendUint64(dst, bits)
}

// appendBinary appends bytes with a subtype, which is not the old one.
func appendBinary(dst []byte, subtype byte, data []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint32(dst, uint32(len(data))), subtype), data...)
}

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

// Decimals says what becomes of numbers with decimal digits.
type Decimals string

// The ways to treat decimals.
const (
	AsDecimals Decimals = "decimal128" // Decimal128, exactly
	AsDoubles  Decimals = "double"     // the nearest double, to calculate with
)

const (
	// maxDigits is the number of digits of a Decimal128.
	maxDigits = 34
	// maxNumberBytes bounds the bytes of a decimal's number. 34 digits take 15 bytes, and zeros may follow the digits.
	maxNumberBytes = 1024
	// minDecimalExponent and maxDecimalExponent are the smallest and the largest exponent of a Decimal128.
	minDecimalExponent, maxDecimalExponent = -6176, 6111
)

// append appends a number in two's complement, most significant byte first, divided by ten to the power of scale. It judges the
// value and not the precision that the schema declares, because Kafka Connect declares 64 for all.
func (as Decimals) append(dst, number []byte, scale int) ([]byte, bson.Type, *DecodeError) {
	for len(number) > 1 && (number[0] == 0 && number[1] < 0x80 || number[0] == 0xff && number[1] >= 0x80) {
		number = number[1:]
	}
	if len(number) > maxNumberBytes {
		return dst, 0, newError(BadNumber, "", "the decimal has %d bytes, but MongoDB's Decimal128 has only %d digits: send fewer digits", len(number), maxDigits)
	}
	if len(number) > 16 {
		return as.appendLong(dst, number, scale)
	}
	high, low, negative := magnitude(number)
	const exactTens = len(powersOfTen) - 1
	switch {
	case as == AsDoubles && high == 0 && low <= 1<<53 && scale >= 0 && scale <= exactTens:
		return appendDouble(dst, signed(float64(low)/powersOfTen[scale], negative)), bson.TypeDouble, nil
	case as == AsDoubles || !fitsDecimal(high, low, scale):
		return as.appendLong(dst, number, scale)
	}
	return appendDecimal(dst, high, low, negative, scale), bson.TypeDecimal128, nil
}

// fitsDecimal reports whether a Decimal128 holds a number of 128 bits with this scale.
func fitsDecimal(high, low uint64, scale int) bool {
	return (high < mostHigh || high == mostHigh && low <= mostLow) && -scale >= minDecimalExponent && -scale <= maxDecimalExponent
}

// mostHigh and mostLow are the upper and lower 64 bits of the largest number of 34 digits.
const mostHigh, mostLow = 0x0001ed09bead87c0, 0x378d8e63ffffffff

// magnitude returns the absolute value of a number of up to 16 bytes, and whether the number is negative.
func magnitude(number []byte) (high, low uint64, negative bool) {
	negative = len(number) > 0 && number[0] >= 0x80
	if negative {
		high, low = math.MaxUint64, math.MaxUint64
	}
	for _, c := range number {
		high, low = high<<8|low>>56, low<<8|uint64(c)
	}
	if negative {
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high, _ = bits.Sub64(0, high, borrow)
	}
	return high, low, negative
}

// appendLong is append for a number of any length. A number of more than 34 digits fits only if zeros follow the first 34.
func (as Decimals) appendLong(dst, bytes []byte, scale int) ([]byte, bson.Type, *DecodeError) {
	number := new(big.Int).SetBytes(bytes)
	negative := len(bytes) > 0 && bytes[0] >= 0x80
	if negative {
		number.Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))), number)
	}
	if as == AsDoubles {
		value, err := strconv.ParseFloat(number.String()+"e"+strconv.Itoa(-scale), 64)
		if err != nil {
			return dst, 0, newError(BadNumber, "", "the decimal is too large for a double: send it with fewer digits")
		}
		return appendDouble(dst, signed(value, negative)), bson.TypeDouble, nil
	}
	if number.Sign() == 0 { // zero gets the nearest exponent that a Decimal128 has
		return appendDecimal(dst, 0, 0, false, min(max(scale, -maxDecimalExponent), -minDecimalExponent)), bson.TypeDecimal128, nil
	}
	ten, whole, rest := big.NewInt(10), new(big.Int), new(big.Int)
	for {
		high, low := new(big.Int).Rsh(number, 64), new(big.Int).And(number, new(big.Int).SetUint64(math.MaxUint64))
		fits := high.IsUint64() && fitsDecimal(high.Uint64(), low.Uint64(), max(scale, -maxDecimalExponent))
		switch {
		case fits && -scale <= maxDecimalExponent:
			return appendDecimal(dst, high.Uint64(), low.Uint64(), negative, scale), bson.TypeDecimal128, nil
		case fits: // zeros behind the digits make the exponent smaller
			number, scale = number.Mul(number, ten), scale+1
			continue
		case -scale >= maxDecimalExponent:
			return dst, 0, newError(BadNumber, "", "the decimal is too large for MongoDB's Decimal128: is its scale correct?")
		}
		if whole, rest = whole.QuoRem(number, ten, rest); rest.Sign() != 0 {
			return dst, 0, newError(BadNumber, "", "the decimal has more than the %d digits of MongoDB's Decimal128: send fewer digits, or set EVENT_DECIMALS=double", maxDigits)
		}
		number, whole, scale = whole, number, scale-1
	}
}

// signed returns value, or its opposite if negative is set.
func signed(value float64, negative bool) float64 {
	if negative {
		return -value
	}
	return value
}

// appendDecimal appends a Decimal128, that is, a number of 113 bits with the sign and the exponent above it.
func appendDecimal(dst []byte, high, low uint64, negative bool, scale int) []byte {
	high |= uint64(-scale-minDecimalExponent) << 49
	if negative {
		high |= 1 << 63
	}
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, low), high)
}
