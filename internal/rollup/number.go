package rollup

import (
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// Number is a BSON number with its own bytes. The zero Number is no number.
type Number struct {
	kind  bson.Type
	bytes [16]byte
}

// decimalNaN are the bits in the high half of a Decimal128 that mark a NaN, quiet or signalling.
const decimalNaN = 0x7c

// numberOf returns a value as a number. False means that the value is not a number, or is a NaN.
func numberOf(v bson.RawValue) (n Number, ok bool) {
	switch {
	case v.Type == bson.TypeInt32 && len(v.Value) == 4, v.Type == bson.TypeInt64 && len(v.Value) == 8:
	case v.Type == bson.TypeDouble && len(v.Value) == 8:
		ok = !math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(v.Value)))
		if !ok {
			return n, false
		}
	case v.Type == bson.TypeDecimal128 && len(v.Value) == 16:
		if v.Value[15]&decimalNaN == decimalNaN {
			return n, false
		}
	default:
		return n, false
	}
	n.kind = v.Type
	copy(n.bytes[:], v.Value)
	return n, true
}

func int64Number(i int64) Number {
	n := Number{kind: bson.TypeInt64}
	binary.LittleEndian.PutUint64(n.bytes[:], uint64(i))
	return n
}

func doubleNumber(f float64) Number {
	n := Number{kind: bson.TypeDouble}
	binary.LittleEndian.PutUint64(n.bytes[:], math.Float64bits(f))
	return n
}

// IsZero reports whether there is no number.
func (n Number) IsZero() bool { return n.kind == 0 }

// Value returns the number as a BSON value. Type 0 means that there is no number.
func (n Number) Value() bson.RawValue {
	if n.kind == 0 {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: n.kind, Value: n.content()}
}

// content returns the bytes of the number in BSON, without type and name.
func (n *Number) content() []byte {
	switch n.kind {
	case bson.TypeInt32:
		return n.bytes[:4]
	case bson.TypeDecimal128:
		return n.bytes[:16]
	default:
		return n.bytes[:8]
	}
}

// float returns the number as a double, rounded if necessary. False means that there is no number, or that it is a Decimal128.
func (n Number) float() (float64, bool) {
	switch n.kind {
	case bson.TypeInt32, bson.TypeInt64:
		return float64(n.integer()), true
	case bson.TypeDouble:
		return n.double(), true
	default:
		return 0, false
	}
}

func (n Number) integer() int64 {
	if n.kind == bson.TypeInt32 {
		return int64(int32(binary.LittleEndian.Uint32(n.bytes[:])))
	}
	return int64(binary.LittleEndian.Uint64(n.bytes[:]))
}

func (n Number) double() float64 { return math.Float64frombits(binary.LittleEndian.Uint64(n.bytes[:])) }

// compare orders numbers by value, across their types.
func (n *Number) compare(o *Number) int {
	if n.kind == o.kind { // avoids an allocation
		switch n.kind {
		case bson.TypeDouble:
			a, b := n.double(), o.double()
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		case bson.TypeInt32, bson.TypeInt64:
			a, b := n.integer(), o.integer()
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		}
	}
	return timeseries.Compare(n.Value(), o.Value())
}

// sum adds numbers. The sum is an int64 as long as that is exact. Then it becomes a double that carries its rounding errors along
// (Neumaier's summation). The result depends on the order of the numbers.
type sum struct {
	whole    int64
	double   float64
	rounded  float64 // the sum of the rounding errors of double
	isDouble bool
	unknown  bool // A Decimal128 was added, and its sum is not computed.
}

func (s *sum) add(n Number) {
	switch {
	case s.unknown:
	case n.kind == bson.TypeDecimal128 || n.kind == 0:
		s.unknown = true
	case n.kind == bson.TypeDouble:
		s.becomeDouble()
		s.addDouble(n.double())
	default:
		s.addWhole(n.integer())
	}
}

func (s *sum) addWhole(i int64) {
	if s.isDouble {
		s.addExactly(i)
		return
	}
	total := s.whole + i
	if (total < s.whole) != (i < 0) { // the sum does not fit an int64
		s.becomeDouble()
		s.addExactly(i)
		return
	}
	s.whole = total
}

func (s *sum) becomeDouble() {
	if !s.isDouble {
		s.isDouble = true
		s.addExactly(s.whole)
	}
}

// addExactly adds an integer as two doubles, each of which holds its half exactly.
func (s *sum) addExactly(i int64) {
	const low = 1<<32 - 1
	s.addDouble(float64(i &^ low))
	s.addDouble(float64(i & low))
}

func (s *sum) addDouble(f float64) {
	total := s.double + f
	switch {
	case math.IsInf(total, 0) || math.IsNaN(total):
	case math.Abs(s.double) >= math.Abs(f):
		s.rounded += (s.double - total) + f
	default:
		s.rounded += (f - total) + s.double
	}
	s.double = total
}

// fold adds another sum with its rounding errors.
func (s *sum) fold(o *sum) {
	switch {
	case s.unknown || o.unknown:
		s.unknown = true
	case !o.isDouble:
		s.addWhole(o.whole)
	default:
		s.becomeDouble()
		s.addDouble(o.double)
		s.rounded += o.rounded
	}
}

// number returns the sum. It returns no number if the sum is unknown.
func (s *sum) number() Number {
	switch {
	case s.unknown:
		return Number{}
	case !s.isDouble:
		return int64Number(s.whole)
	case math.IsInf(s.double, 0) || math.IsNaN(s.double):
		return doubleNumber(s.double)
	default:
		return doubleNumber(s.double + s.rounded)
	}
}
