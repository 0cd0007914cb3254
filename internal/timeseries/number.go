package timeseries

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"

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

// Ranks of decimals. Only finite decimals have a coefficient.
const (
	rankNaN int8 = iota - 2
	rankMinusInfinity
	rankFinite
	rankInfinity
)

// decimal is a decoded Decimal128, that is, ±coefficient × 10^exponent with a coefficient below 10^34.
type decimal struct {
	rank     int8
	negative bool
	hi, lo   uint64
	exponent int
}

// readDecimal decodes the 16 bytes of a Decimal128 (IEEE 754, binary integer coefficient). A coefficient out of range counts as
// zero, as the standard says. Bytes of another length count as zero, too.
func readDecimal(b []byte) decimal {
	if len(b) != 16 {
		return decimal{}
	}
	lo, hi := word(b), word(b[8:])
	d := decimal{negative: hi>>63 != 0}
	switch combination := hi >> 58 & 0x1f; {
	case combination == 0x1f:
		d.rank = rankNaN
	case combination == 0x1e && d.negative:
		d.rank = rankMinusInfinity
	case combination == 0x1e:
		d.rank = rankInfinity
	case combination>>3 == 3: // the coefficient has an implied high bit and is always out of range
	default:
		d.exponent = int(hi>>49&0x3fff) - 6176
		d.hi, d.lo = hi&(1<<49-1), lo
		if !less(d.hi, d.lo, powers[34]) {
			d.hi, d.lo = 0, 0
		}
	}
	return d
}

// integerDecimal returns an integer as a decimal, exactly.
func integerDecimal(i int64) decimal {
	d := decimal{negative: i < 0, lo: uint64(i)}
	if i < 0 {
		d.lo = -d.lo
	}
	return d
}

func (d decimal) sign() int {
	switch {
	case d.hi == 0 && d.lo == 0:
		return 0
	case d.negative:
		return -1
	default:
		return 1
	}
}

// compare orders two decimals by value, exactly.
func (d decimal) compare(e decimal) int {
	if d.rank != rankFinite || e.rank != rankFinite {
		return cmp.Compare(d.rank, e.rank)
	}
	sign := d.sign()
	if c := cmp.Compare(sign, e.sign()); c != 0 || sign == 0 {
		return c
	}
	return sign * d.compareMagnitude(e)
}

// compareMagnitude compares the absolute values of two decimals that are not zero. The decimal with the larger leading power of
// ten is larger. If these powers are equal, aligning the exponents keeps the coefficients below 10^34.
func (d decimal) compareMagnitude(e decimal) int {
	if c := cmp.Compare(d.leading(), e.leading()); c != 0 {
		return c
	}
	if d.exponent >= e.exponent {
		d.hi, d.lo = d.times(d.exponent - e.exponent)
	} else {
		e.hi, e.lo = e.times(e.exponent - d.exponent)
	}
	return cmp.Or(cmp.Compare(d.hi, e.hi), cmp.Compare(d.lo, e.lo))
}

// leading returns the power of ten just above the value, that is, the digits of the coefficient plus the exponent.
func (d decimal) leading() int {
	digits := 1
	for digits < len(powers)-1 && !less(d.hi, d.lo, powers[digits]) {
		digits++
	}
	return digits + d.exponent
}

// times returns the coefficient multiplied by 10^n. The product must stay below 10^34.
func (d decimal) times(n int) (hi, lo uint64) {
	power := powers[n]
	hi, lo = bits.Mul64(d.lo, power[1])
	return hi + d.hi*power[1] + d.lo*power[0], lo
}

// compareDouble orders a decimal and a double by value, exactly.
func (d decimal) compareDouble(f float64) int {
	if rank := rankOf(f); rank != rankFinite || d.rank != rankFinite {
		return cmp.Compare(d.rank, rank)
	}
	sign := d.sign()
	if c := cmp.Compare(sign, cmp.Compare(f, 0)); c != 0 || sign == 0 {
		return c
	}
	// Doubles lie between 10^-324 and 10^309, which bounds the arithmetic below.
	switch leading := d.leading(); {
	case leading > 310:
		return sign
	case leading < -330:
		return -sign
	}
	return sign * d.compareBig(math.Abs(f))
}

func rankOf(f float64) int8 {
	switch {
	case math.IsNaN(f):
		return rankNaN
	case math.IsInf(f, -1):
		return rankMinusInfinity
	case math.IsInf(f, 1):
		return rankInfinity
	}
	return rankFinite
}

// compareBig compares the absolute value of the decimal with a positive finite double. It multiplies both by their denominators,
// and compares integers.
func (d decimal) compareBig(f float64) int {
	fraction, exponent := math.Frexp(f)
	double := big.NewInt(int64(math.Ldexp(fraction, 53)))
	exponent -= 53

	coefficient := new(big.Int).SetUint64(d.hi)
	coefficient.Lsh(coefficient, 64).Add(coefficient, new(big.Int).SetUint64(d.lo))
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.exponent, -d.exponent))), nil)
	if d.exponent >= 0 {
		coefficient.Mul(coefficient, power)
	} else {
		double.Mul(double, power)
	}
	if exponent >= 0 {
		double.Lsh(double, uint(exponent))
	} else {
		coefficient.Lsh(coefficient, uint(-exponent))
	}
	return coefficient.Cmp(double)
}

func less(hi, lo uint64, than [2]uint64) bool {
	return hi < than[0] || hi == than[0] && lo < than[1]
}

// powers holds 10^0 to 10^34 as high and low words. It never changes.
var powers = func() (table [35][2]uint64) {
	table[0] = [2]uint64{0, 1}
	for i := 1; i < len(table); i++ {
		hi, lo := bits.Mul64(table[i-1][1], 10)
		table[i] = [2]uint64{hi + table[i-1][0]*10, lo}
	}
	return table
}()
