package measurement

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Each function of this file reads one token of JSON text, from index i on. A negative index means "not known", because the text
// is wrong or only unusual.

// unknown is the index behind a text that is not known here.
const unknown = -1

// skipSpace returns the index of the first byte that is not white space, or len(text) if there is none.
func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t') {
		i++
	}
	return i
}

// writing says how a JSON string is written.
type writing uint8

const (
	plain   writing = iota // it stands for itself, and is UTF-8
	escaped                // it holds escapes, and was not checked
)

// scanString returns the index of the quote that ends a string. The string's content begins at i.
func scanString(text []byte, i int) (end int, how writing) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	start := i
	for ; i+8 <= len(text); i += 8 {
		// found gets a high bit for each byte that is a quote, a backslash, a control character or not ASCII. Bits above the
		// first may be wrong.
		w := binary.LittleEndian.Uint64(text[i:])
		quotes, slashes := w^(ones*'"'), w^(ones*'\\')
		found := (quotes - ones) &^ quotes
		found |= (slashes - ones) &^ slashes
		found |= (w - ones*' ') | w
		if found &= highs; found != 0 {
			i += bits.TrailingZeros64(found) / 8
			break
		}
	}
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i, plain
		case c < ' ':
			return unknown, plain
		case c == '\\' || c >= utf8.RuneSelf:
			return scanUnusual(text, start, i)
		}
	}
	return unknown, plain
}

// scanUnusual is scanString from the first byte that is an escape or not ASCII.
func scanUnusual(text []byte, start, i int) (end int, how writing) {
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			if how == plain && !utf8.Valid(text[start:i]) {
				return unknown, plain
			}
			return i, how
		case c < ' ':
			return unknown, plain
		case c == '\\':
			how = escaped
			i++
		}
	}
	return unknown, plain
}

// scanNumber reads a number as appendNumber does, as an int32, an int64 or the bits of a double.
func scanNumber(text []byte, i int) (value uint64, kind bson.Type, end int) {
	if len(text)-i >= shortBytes {
		if value, kind, end = scanShort(text[i:]); end > 0 {
			return value, kind, i + end
		}
		return scanLong(text, i)
	}
	var last [shortBytes]byte // the end of the text, followed by zeros
	copy(last[:], text[i:])
	if value, kind, end = scanShort(last[:]); end > 0 && i+end < len(text) {
		return value, kind, i + end
	}
	return scanLong(text, i)
}

// scanLong is scanNumber for numbers of any length.
func scanLong(text []byte, i int) (value uint64, kind bson.Type, end int) {
	start := i
	negative := text[i] == '-'
	if negative {
		i++
	}
	first := i
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		value = value*10 + uint64(text[i]-'0')
	}
	digits := i - first
	if digits == 0 || digits > 1 && text[first] == '0' || i == len(text) {
		return 0, 0, unknown
	}
	if c := text[i]; c == '.' || c == 'e' || c == 'E' {
		return scanFraction(text, start, i, value, digits, negative)
	}
	if value <= math.MaxInt32 && digits <= 10 && (value > 0 || !negative) {
		if negative {
			value = -value
		}
		return value, bson.TypeInt32, i
	}
	return convertInteger(text[start:i], value, digits, negative, i)
}

// shortBytes is the size of a sign, eight bytes, a point and eight bytes.
const shortBytes = 18

// scanShort is scanNumber from the text's start, for at most seven digits before and behind the point. It has no loops, whose
// ends a processor would predict wrongly. The text must have at least shortBytes bytes.
func scanShort(text []byte) (value uint64, kind bson.Type, end int) {
	text = text[:shortBytes]
	i := 0
	negative := text[0] == '-'
	if negative {
		i = 1
	}
	value, n := scanDigits(binary.LittleEndian.Uint64(text[i : i+8]))
	if n == 0 || n == 8 || n > 1 && text[i] == '0' {
		return 0, 0, unknown
	}
	i += n
	switch c := text[i]; {
	case c == '.':
		fraction, n := scanDigits(binary.LittleEndian.Uint64(text[i+1 : i+9]))
		if i += 1 + n; n == 0 || n == 8 || text[i]|' ' == 'e' {
			return 0, 0, unknown
		}
		power := powersOfTen[n]
		f := (float64(value)*power + float64(fraction)) / power // 14 digits, so only the division rounds
		if negative {
			f = -f
		}
		return math.Float64bits(f), bson.TypeDouble, i
	case c|' ' == 'e' || negative && value == 0:
		return 0, 0, unknown
	}
	if negative {
		value = -value
	}
	return value, bson.TypeInt32, i
}

// scanDigits reads the digits at the start of eight bytes of text. It returns the number that they write, and how many they are.
func scanDigits(w uint64) (value uint64, n int) {
	const ones = 0x0101010101010101
	w ^= ones * '0'
	n = bits.TrailingZeros64((w+ones*(128-10)|w)&(ones<<7)) / 8
	// The shift puts zeros before the digits, and the first digit into the lowest byte. Then pairs, fours and eights are joined.
	w <<= uint(64 - 8*n)
	w = w*10 + w>>8
	const pairs = 0x000000FF000000FF
	w = (w&pairs)*(100+1000000<<32) + (w>>16&pairs)*(1+10000<<32)
	return w >> 32, n
}

// convertInteger converts an integer that is not small.
func convertInteger(text []byte, value uint64, digits int, negative bool, end int) (uint64, bson.Type, int) {
	const longest = 19 // 64 bits hold any number of 19 digits
	switch {
	case digits > longest || value == 0:
	case !negative && value <= math.MaxInt64:
		return value, bson.TypeInt64, end
	case negative && value == 1<<31:
		return -value, bson.TypeInt32, end
	case negative && value <= 1<<63:
		return -value, bson.TypeInt64, end
	}
	return convertDouble(text, end)
}

// scanFraction continues behind the integer part of a number with a fraction, an exponent or both.
func scanFraction(text []byte, start, i int, value uint64, digits int, negative bool) (uint64, bson.Type, int) {
	power := 0
	if text[i] == '.' {
		point := i
		for i++; i < len(text) && text[i]-'0' <= 9; i++ {
			value = value*10 + uint64(text[i]-'0')
		}
		if power = point + 1 - i; power == 0 || i == len(text) {
			return 0, 0, unknown
		}
		digits -= power
	}
	if text[i]|' ' == 'e' {
		exponent, end := scanExponent(text, i+1)
		if end < 0 {
			return 0, 0, unknown
		}
		power, i = power+exponent, end
	}
	// A double holds the digits and the power of ten exactly, so one operation rounds correctly.
	const longest = 19
	if digits > longest || value > 1<<53 || power <= -len(powersOfTen) || power >= len(powersOfTen) {
		return convertDouble(text[start:i], i)
	}
	f := float64(value)
	if power < 0 {
		f /= powersOfTen[-power]
	} else {
		f *= powersOfTen[power]
	}
	if negative {
		f = -f
	}
	return math.Float64bits(f), bson.TypeDouble, i
}

// scanExponent reads the exponent behind its letter. A huge exponent may come out smaller.
func scanExponent(text []byte, i int) (exponent, end int) {
	negative := i < len(text) && text[i] == '-'
	if negative || i < len(text) && text[i] == '+' {
		i++
	}
	first := i
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		exponent = min(exponent*10+int(text[i]-'0'), 1<<20)
	}
	if i == first || i == len(text) {
		return 0, unknown
	}
	if negative {
		exponent = -exponent
	}
	return exponent, i
}

func convertDouble(text []byte, end int) (uint64, bson.Type, int) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, 0, unknown
	}
	return math.Float64bits(f), bson.TypeDouble, end
}

// scanWord reads true, false or null.
func scanWord(text []byte, i int) (kind bson.Type, value byte, end int) {
	rest := text[i:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "null":
		return bson.TypeNull, 0, i + 4
	case len(rest) >= 4 && string(rest[:4]) == "true":
		return bson.TypeBoolean, 1, i + 4
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return bson.TypeBoolean, 0, i + 5
	}
	return 0, 0, unknown
}
