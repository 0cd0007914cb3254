package timeseries

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func value(t testing.TB, v any) bson.RawValue {
	t.Helper()
	kind, b, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: kind, Value: b}
}

func decimal128(t testing.TB, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCompareOrders checks every pair of a sorted list. Values in one row are equal.
func TestCompareOrders(t *testing.T) {
	dec := func(s string) bson.Decimal128 { return decimal128(t, s) }
	rows := [][]any{
		{bson.MinKey{}},
		{bson.Undefined{}},
		{bson.Null{}},
		{math.NaN(), dec("NaN"), math.Float64frombits(0xfff8000000000001)},
		{math.Inf(-1), dec("-Infinity")},
		{dec("-9.999999999999999999999999999999999E6144")},
		{-math.MaxFloat64},
		{-math.Ldexp(1, 63) * 2},
		{int64(math.MinInt64), -math.Ldexp(1, 63), dec("-9223372036854775808")},
		{int64(math.MinInt64 + 1)},
		{-1.5, dec("-1.5"), dec("-1.50")},
		{int32(-1), int64(-1), -1.0, dec("-1"), dec("-1.000")},
		{-math.SmallestNonzeroFloat64},
		{dec("-1E-6176")},
		{int32(0), int64(0), 0.0, math.Copysign(0, -1), dec("0"), dec("-0"), dec("0E+6000")},
		{dec("1E-6176")},
		{math.SmallestNonzeroFloat64},
		{dec("0.1")},
		{0.1}, // 0.1000000000000000055…
		{dec("0.1000000000000000055511151231257828")},
		{int32(1), int64(1), 1.0, dec("1"), dec("1E0"), dec("10E-1")},
		{int64(1<<53 - 1)},
		{int64(1 << 53), math.Ldexp(1, 53), dec("9007199254740992")},
		{int64(1<<53 + 1), dec("9007199254740993")},
		{int64(1<<53 + 2), math.Ldexp(1, 53) + 2},
		{int64(math.MaxInt64), dec("9223372036854775807")},
		{math.Ldexp(1, 63), dec("9223372036854775808")},
		{dec("9.999999999999999999999999999999999E33"), dec("9999999999999999999999999999999999")},
		{dec("1E34"), dec("10E33")},
		{math.MaxFloat64},
		{dec("1E310")},
		{dec("9.999999999999999999999999999999999E6144")},
		{math.Inf(1), dec("Infinity")},
		{""},
		{"a", bson.Symbol("a")},
		{"a\x00"},
		{"ab"},
		{"b"},
		{"é"},
		{bson.D{}},
		{bson.D{{Key: "b", Value: nil}}}, // the type of the value is compared before the name
		{bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1.0}}},
		{bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 0}}},
		{bson.D{{Key: "a", Value: 2}}},
		{bson.D{{Key: "b", Value: 1}}},
		{bson.D{{Key: "a", Value: bson.D{}}}},
		{bson.A{}},
		{bson.A{1}, bson.A{1.0}},
		{bson.A{1, 1}},
		{bson.A{2}},
		{bson.A{"a"}},
		{bson.Binary{}},
		{bson.Binary{Subtype: 4}},
		{bson.Binary{Data: []byte{9}}},
		{bson.Binary{Subtype: 5, Data: []byte{1}}},
		{bson.Binary{Data: []byte{0, 0}}},
		{bson.ObjectID{}},
		{bson.ObjectID{1}},
		{false},
		{true},
		{bson.DateTime(-1)},
		{bson.DateTime(0)},
		{bson.Timestamp{T: 1, I: 9}},
		{bson.Timestamp{T: math.MaxUint32}},
		{bson.Regex{Pattern: "a"}},
		{bson.Regex{Pattern: "a", Options: "i"}},
		{bson.Regex{Pattern: "ab"}},
		{bson.DBPointer{DB: "b"}},
		{bson.DBPointer{DB: "aa"}}, // the length is compared first
		{bson.JavaScript("a")},
		{bson.JavaScript("b")},
		{bson.CodeWithScope{Code: "a", Scope: bson.D{}}},
		{bson.CodeWithScope{Code: "a", Scope: bson.D{{Key: "x", Value: 1}}}},
		{bson.CodeWithScope{Code: "b", Scope: bson.D{}}},
		{bson.MaxKey{}},
	}
	for i, row := range rows {
		for j, other := range rows {
			want := max(-1, min(1, i-j))
			for _, a := range row {
				for _, b := range other {
					x, y := value(t, a), value(t, b)
					if got := Compare(x, y); got != want {
						t.Errorf("Compare(%v, %v) = %d, want %d", x, y, got, want)
					}
				}
			}
		}
	}
}

// TestCompareNumbersExactly compares random numbers that lie close together with their exact fractions.
func TestCompareNumbersExactly(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		a, exactA := randomNumber(t, random)
		b, exactB := randomNumber(t, random)
		if got, want := Compare(a, b), exactA.Cmp(exactB); got != want {
			t.Fatalf("Compare(%v, %v) = %d, want %d", a, b, got, want)
		}
		if got, want := Compare(b, a), exactB.Cmp(exactA); got != want {
			t.Fatalf("Compare(%v, %v) = %d, want %d", b, a, got, want)
		}
	}
}

func randomNumber(t *testing.T, random *rand.Rand) (bson.RawValue, *big.Rat) {
	center := []int64{0, 1, 1 << 31, 1 << 53, math.MaxInt64 - 4}[random.IntN(5)]
	integer := center + random.Int64N(4)
	if random.IntN(2) == 0 {
		integer = -integer
	}
	switch random.IntN(3) {
	case 0:
		return value(t, integer), new(big.Rat).SetInt64(integer)
	case 1:
		f := float64(integer) * math.Ldexp(1, random.IntN(5)-2)
		return value(t, f), new(big.Rat).SetFloat64(f)
	default:
		text := strconv.FormatInt(integer, 10) + strings.Repeat("0", random.IntN(15)) +
			"E" + strconv.Itoa(-random.IntN(20))
		exact, _ := new(big.Rat).SetString(text)
		return value(t, decimal128(t, text)), exact
	}
}

func TestCompareTakesAnyBytes(t *testing.T) {
	deep := []byte{5, 0, 0, 0, 0}
	for range 400 {
		doc := append([]byte{0, 0, 0, 0, 3, 'a', 0}, deep...)
		doc = append(doc, 0)
		doc[0], doc[1] = byte(len(doc)), byte(len(doc)>>8)
		deep = doc
	}
	for _, b := range [][]byte{nil, {1}, {5, 0, 0, 0, 1}, {9, 0, 0, 0, 2, 'a', 0, 99, 0}, deep} {
		for kind := range 256 {
			v := bson.RawValue{Type: bson.Type(kind), Value: b}
			if Compare(v, v) != 0 {
				t.Errorf("type %d, % x: not equal to itself", kind, b)
			}
			for other := range 256 {
				Compare(v, bson.RawValue{Type: bson.Type(other), Value: b})
			}
		}
	}
}

func TestCompareDoesNotAllocate(t *testing.T) {
	for name, pair := range map[string][2]any{
		"doubles":  {1.5, 2.5},
		"mixed":    {int32(1), 1.5},
		"decimals": {decimal128(t, "1.5"), decimal128(t, "15E-1")},
		"strings":  {"abc", "abd"},
		"objects":  {bson.D{{Key: "a", Value: bson.A{1, 2}}}, bson.D{{Key: "a", Value: bson.A{1, 3}}}},
	} {
		a, b := value(t, pair[0]), value(t, pair[1])
		if n := testing.AllocsPerRun(100, func() { Compare(a, b) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	for name, pair := range map[string][2]any{
		"doubles": {1.5, 2.5},
		"int32":   {int32(4), int32(5)},
		"mixed":   {int32(1), 1.5},
		"decimal": {decimal128(b, "1.5"), decimal128(b, "15E-1")},
		"objects": {bson.D{{Key: "a", Value: 1}, {Key: "b", Value: "x"}}, bson.D{{Key: "a", Value: 1}, {Key: "b", Value: "y"}}},
	} {
		x, y := value(b, pair[0]), value(b, pair[1])
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Compare(x, y)
			}
		})
	}
}

// FuzzCompare checks for any bytes that the order is the same from both sides, and that a value equals itself.
func FuzzCompare(f *testing.F) {
	x := []byte(ext(f, `{"a": [1, {"$numberDecimal": "1.5"}], "b": {"$code": "c", "$scope": {"d": 1.5}}}`))
	y := []byte(ext(f, `{"a": [1, 1.5], "b": {"$code": "c", "$scope": {"d": {"$numberLong": "2"}}}}`))
	f.Add(byte(bson.TypeEmbeddedDocument), x, byte(bson.TypeArray), y)
	f.Add(byte(bson.TypeEmbeddedDocument), x, byte(bson.TypeEmbeddedDocument), y)
	f.Add(byte(bson.TypeDouble), []byte("12345678"), byte(bson.TypeDecimal128), []byte("1234567812345678"))
	f.Fuzz(func(t *testing.T, kindA byte, valueA []byte, kindB byte, valueB []byte) {
		a := bson.RawValue{Type: bson.Type(kindA), Value: valueA}
		b := bson.RawValue{Type: bson.Type(kindB), Value: valueB}
		if there, back := Compare(a, b), Compare(b, a); there != -back {
			t.Fatalf("%d there, %d back", there, back)
		}
		if Compare(a, a) != 0 || Compare(b, b) != 0 {
			t.Fatal("a value is not equal to itself")
		}
	})
}
