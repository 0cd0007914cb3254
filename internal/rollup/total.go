package rollup

import (
	"cmp"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
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
	case v.Type == bson.TypeDouble && len(v.Value) == 8 && !math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(v.Value))):
	case v.Type == bson.TypeDecimal128 && len(v.Value) == 16 && v.Value[15]&decimalNaN != decimalNaN:
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
	if n.IsZero() {
		return bson.RawValue{}
	}
	return bson.RawValue{Type: n.kind, Value: n.content()}
}

// content returns the bytes of the number in BSON, without type and name.
func (n *Number) content() []byte {
	return n.bytes[:rawbson.Size(n.kind, nil)]
}

// appendElement appends the number as an element of a document. It appends nothing if there is no number.
func (n *Number) appendElement(dst []byte, name string) []byte {
	if n.IsZero() {
		return dst
	}
	return append(rawbson.AppendHeader(dst, n.kind, name), n.content()...)
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
			return cmp.Compare(n.double(), o.double())
		case bson.TypeInt32, bson.TypeInt64:
			return cmp.Compare(n.integer(), o.integer())
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

// Names of the fields of a total.
const (
	FieldN     = "n"
	FieldSum   = "sum"
	FieldMin   = "min"
	FieldMax   = "max"
	FieldFirst = "first"
	FieldLast  = "last"
)

// Total is what a window knows of one field, that is, the number of its numbers and some of them. The zero Total has no numbers.
//
// A Total ignores NaN. A Decimal128 has no sum, so neither has a Total that includes one.
type Total struct {
	// N is the number of numbers.
	N int64
	// Min, Max, First and Last are numbers as they were stored. Min and Max keep the first of equal numbers.
	Min, Max, First, Last Number

	sum sum
}

// Sum returns the sum of the numbers. It is an int64 as long as that is exact, and else a double. There is no sum if a Decimal128
// was added.
func (t *Total) Sum() Number {
	if t.N == 0 {
		return Number{}
	}
	return t.sum.number()
}

// mean returns the sum divided by the count. False means that there is no sum.
func (t *Total) mean() (float64, bool) {
	sum, ok := t.Sum().float()
	return sum / float64(t.N), ok
}

// Add adds a value. Values must come in the order of their measurements. A value that is not a number adds nothing.
func (t *Total) Add(v bson.RawValue) {
	if n, ok := numberOf(v); ok {
		t.add(&n)
	}
}

func (t *Total) add(n *Number) {
	t.include(n, n, n, n)
	t.sum.add(*n)
	t.N++
}

// fold adds the content of another total. Totals must come in the order of their windows.
func (t *Total) fold(o *Total) {
	if o.N == 0 {
		return
	}
	t.include(&o.Min, &o.Max, &o.First, &o.Last)
	t.sum.fold(&o.sum)
	t.N += o.N
}

func (t *Total) include(least, most, first, last *Number) {
	if t.N == 0 {
		t.Min, t.Max, t.First, t.Last = *least, *most, *first, *last
		return
	}
	if least.compare(&t.Min) < 0 {
		t.Min = *least
	}
	if most.compare(&t.Max) > 0 {
		t.Max = *most
	}
	t.Last = *last
}

// memberNames are the names of a total's numbers, in the order in which they are stored.
var memberNames = [...]string{FieldN, FieldSum, FieldMin, FieldMax, FieldFirst, FieldLast}

// members returns the numbers of a total, in the order of memberNames.
func (t *Total) members() [len(memberNames)]Number {
	return [...]Number{int64Number(t.N), t.Sum(), t.Min, t.Max, t.First, t.Last}
}

// appendElement appends the total as an element of a document.
func (t *Total) appendElement(dst []byte, name string) []byte {
	dst = rawbson.AppendHeader(dst, bson.TypeEmbeddedDocument, name)
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	members := t.members()
	for i := range members {
		dst = members[i].appendElement(dst, memberNames[i])
	}
	return rawbson.EndDocument(dst, start)
}

// parseTotal reads a stored total. False means that the document is an object with the totals of its fields. The two differ in
// the member n, which is a number in a total and an object in such an object.
func parseTotal(document bson.Raw) (t Total, ok bool) {
	if len(document) < rawbson.Empty {
		return t, false
	}
	t.sum.unknown = true // until a sum is read
	for rest := rawbson.Content(document); len(rest) > 0; {
		var e rawbson.Element
		if e, rest, ok = rawbson.Read(rest); !ok {
			return t, false
		}
		n, isNumber := numberOf(bson.RawValue{Type: e.Kind, Value: e.Value})
		switch string(e.Name) {
		case FieldN:
			if e.Kind != bson.TypeInt64 && e.Kind != bson.TypeInt32 {
				return t, false
			}
			t.N = n.integer()
		case FieldSum:
			if !isNumber && e.Kind == bson.TypeDouble { // a NaN, the sum of infinities of both signs
				n = doubleNumber(math.Float64frombits(binary.LittleEndian.Uint64(e.Value)))
			}
			if n.kind != 0 {
				t.sum = sum{}
				t.sum.add(n)
			}
		case FieldMin:
			t.Min = n
		case FieldMax:
			t.Max = n
		case FieldFirst:
			t.First = n
		case FieldLast:
			t.Last = n
		}
	}
	return t, t.N > 0 && !t.Min.IsZero() && !t.Max.IsZero() && !t.First.IsZero() && !t.Last.IsZero()
}
