package measurement

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// appendNumber appends the value of a JSON number as mongosh would store it: an integer as int32 if it fits, else as
// int64; beyond that, or with a fraction or an exponent, and minus zero, as a double. False: no finite double.
func appendNumber(dst, text []byte) (bson.Type, []byte, bool) {
	if n, ok := parseInteger(text); ok {
		if n == int64(int32(n)) {
			return bson.TypeInt32, binary.LittleEndian.AppendUint32(dst, uint32(n)), true
		}
		return bson.TypeInt64, binary.LittleEndian.AppendUint64(dst, uint64(n)), true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0, dst, false
	}
	return bson.TypeDouble, appendDouble(dst, f), true
}

// parseInteger parses an integer that fits 64 bits. Minus zero is none.
func parseInteger(text []byte) (int64, bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || (negative && digits[0] == '0') {
		return 0, false
	}
	var n uint64 // 19 digits fit
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n <= math.MaxInt64
}

func appendDouble(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
}
