package timeseries

import (
	"cmp"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// compareNumbers compares two numbers of different types by their exact values.
func compareNumbers(a, b bson.RawValue) int {
	switch {
	case a.Type == bson.TypeDecimal128:
		return -compareToDecimal(b, readDecimalValue(a))
	case b.Type == bson.TypeDecimal128:
		return compareToDecimal(a, readDecimalValue(b))
	case a.Type == bson.TypeDouble:
		return -compareInteger(readInteger(b), readDouble(a))
	case b.Type == bson.TypeDouble:
		return compareInteger(readInteger(a), readDouble(b))
	default:
		return cmp.Compare(readInteger(a), readInteger(b))
	}
}

// compareToDecimal compares a number of another type with a decimal.
func compareToDecimal(n bson.RawValue, d decimal) int {
	if n.Type == bson.TypeDouble {
		return d.compareDouble(readDouble(n)) * -1
	}
	return integerDecimal(readInteger(n)).compare(d)
}

// compareInteger compares an integer with a double. Converting the integer could round it; so a double beyond the
// integers is decided by its range, and any other is cut to its integral part and, when that is equal, by the rest.
func compareInteger(i int64, f float64) int {
	switch {
	case math.IsNaN(f), f < -1<<63:
		return 1
	case f >= 1<<63:
		return -1
	}
	whole := math.Trunc(f)
	return cmp.Or(cmp.Compare(i, int64(whole)), cmp.Compare(whole, f))
}

func readInteger(v bson.RawValue) int64 {
	switch {
	case v.Type == bson.TypeInt32 && len(v.Value) == 4:
		return int64(int32(binary.LittleEndian.Uint32(v.Value)))
	case len(v.Value) == 8:
		return int64(word(v.Value))
	default:
		return 0
	}
}

func readDouble(v bson.RawValue) float64 {
	if len(v.Value) != 8 {
		return 0
	}
	return math.Float64frombits(word(v.Value))
}
