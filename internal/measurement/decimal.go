package measurement

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
