package measurement

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Decimals is what becomes of numbers with decimal digits.
type Decimals string

// What becomes of them.
const (
	AsDecimals Decimals = "decimal128" // Decimal128, exactly
	AsDoubles  Decimals = "double"     // the nearest double, to calculate with
)

const (
	// maxDigits are the digits of a Decimal128.
	maxDigits = 34
	// maxNumberBytes is how many bytes of a decimal's number are looked at: 34 digits take 15, and zeros behind them may follow.
	maxNumberBytes = 1024
	// minDecimalExponent is the smallest exponent of a Decimal128.
	minDecimalExponent = -6176
)

// decimal appends a number of bytes in two's complement, the greatest first, divided by ten to the power of the scale. The value
// is judged, and not the precision that the schema declares: Kafka Connect declares 64 for all.
func (r *avroReader) decimal(number []byte, scale int) (bson.Type, *DecodeError) {
	for len(number) > 1 && (number[0] == 0 && number[1] < 0x80 || number[0] == 0xff && number[1] >= 0x80) {
		number = number[1:]
	}
	if len(number) > maxNumberBytes {
		return 0, newError(BadNumber, "", "its number has %d bytes, and a decimal of MongoDB has %d digits: send fewer digits", len(number), maxDigits)
	}
	if len(number) > 16 {
		return r.longDecimal(number, scale)
	}
	high, low, negative := magnitude(number)
	const exactTens = len(tens) - 1
	switch {
	case r.decimals == AsDoubles && high == 0 && low <= 1<<53 && scale <= exactTens:
		r.appendDouble(float64(low)/tens[scale], negative)
		return bson.TypeDouble, nil
	case r.decimals == AsDoubles || !fitsDecimal(high, low, scale):
		return r.longDecimal(number, scale)
	}
	r.appendDecimal(high, low, negative, scale)
	return bson.TypeDecimal128, nil
}

// fitsDecimal reports whether a Decimal128 holds a number of 128 bits with this scale.
func fitsDecimal(high, low uint64, scale int) bool {
	return (high < mostHigh || high == mostHigh && low <= mostLow) && -scale >= minDecimalExponent
}

// mostHigh and mostLow are the largest number of 34 digits.
const mostHigh, mostLow = 0x0001ed09bead87c0, 0x378d8e63ffffffff

// magnitude is a number of up to 16 bytes without its sign.
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

// tens are the powers of ten that doubles hold exactly.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// longDecimal is decimal of any number. One of more than 34 digits has 34 only where zeros stand behind them.
func (r *avroReader) longDecimal(bytes []byte, scale int) (bson.Type, *DecodeError) {
	number := new(big.Int).SetBytes(bytes)
	negative := len(bytes) > 0 && bytes[0] >= 0x80
	if negative {
		number.Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))), number)
	}
	if r.decimals == AsDoubles {
		value, err := strconv.ParseFloat(number.String()+"e"+strconv.Itoa(-scale), 64)
		if err != nil {
			return 0, newError(BadNumber, "", "it is beyond a double: send it with fewer digits")
		}
		r.appendDouble(value, negative)
		return bson.TypeDouble, nil
	}
	ten, whole, rest := big.NewInt(10), new(big.Int), new(big.Int)
	for {
		high, low := new(big.Int).Rsh(number, 64), new(big.Int).And(number, new(big.Int).SetUint64(math.MaxUint64))
		switch {
		case high.IsUint64() && fitsDecimal(high.Uint64(), low.Uint64(), scale):
			r.appendDecimal(high.Uint64(), low.Uint64(), negative, scale)
			return bson.TypeDecimal128, nil
		case number.Sign() == 0:
			r.appendDecimal(0, 0, false, -minDecimalExponent)
			return bson.TypeDecimal128, nil
		}
		if whole, rest = whole.QuoRem(number, ten, rest); rest.Sign() != 0 {
			return 0, newError(BadNumber, "", "it has more than the %d digits of a decimal of MongoDB: send fewer, or set EVENT_DECIMALS=double", maxDigits)
		}
		number, whole, scale = whole, number, scale-1
	}
}

// appendDouble appends a double without a sign, or its opposite.
func (r *avroReader) appendDouble(value float64, negative bool) {
	if negative {
		value = -value
	}
	r.out = binary.LittleEndian.AppendUint64(r.out, math.Float64bits(value))
}

// appendDecimal appends a Decimal128: the number of 113 bits with sign and exponent above it.
func (r *avroReader) appendDecimal(high, low uint64, negative bool, scale int) {
	high |= uint64(-scale-minDecimalExponent) << 49
	if negative {
		high |= 1 << 63
	}
	r.out = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(r.out, low), high)
}
