package timeseries

import (
	"cmp"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// compareNumbers compares two numbers of different types by their exact values.
func compareNumbers(typeA bson.Type, a []byte, typeB bson.Type, b []byte) int {
	switch {
	case typeA == bson.TypeDecimal128:
		return -compareToDecimal(typeB, b, readDecimal(a))
	case typeB == bson.TypeDecimal128:
		return compareToDecimal(typeA, a, readDecimal(b))
	case typeA == bson.TypeDouble:
		return -compareInteger(readInteger(b), readDouble(a))
	case typeB == bson.TypeDouble:
		return compareInteger(readInteger(a), readDouble(b))
	default:
		return cmp.Compare(readInteger(a), readInteger(b))
	}
}

// compareToDecimal compares a number of another type with a decimal.
func compareToDecimal(t bson.Type, b []byte, d decimal) int {
	if t == bson.TypeDouble {
		return -d.compareDouble(readDouble(b))
	}
	return integerDecimal(readInteger(b)).compare(d)
}

// compareInteger compares an integer with a double. Converting a large integer would round it. The range decides if the double
// lies beyond the integers. Otherwise the double's integral part decides, and on a tie the rest of the double.
func compareInteger(i int64, f float64) int {
	switch {
	case i > -1<<53 && i < 1<<53:
		return cmp.Compare(float64(i), f)
	case math.IsNaN(f), f < -1<<63:
		return 1
	case f >= 1<<63:
		return -1
	}
	whole := math.Trunc(f)
	return cmp.Or(cmp.Compare(i, int64(whole)), cmp.Compare(whole, f))
}

// readInteger reads an int32 or an int64, by its length. A value of another length counts as 0.
func readInteger(b []byte) int64 {
	switch len(b) {
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case 8:
		return int64(word(b))
	default:
		return 0
	}
}

// readDouble reads a double. A value of another length counts as 0.
func readDouble(b []byte) float64 {
	if len(b) != 8 {
		return 0
	}
	return math.Float64frombits(word(b))
}
