package measurement

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
)

// TestDecimals compares decimals with big numbers, and checks the bounds of digits.
func TestDecimals(t *testing.T) {
	ten := func(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }
	largest := new(big.Int).Sub(ten(34), big.NewInt(1))
	for _, test := range []struct {
		number       *big.Int
		scale        int
		want, double string
	}{
		{big.NewInt(0), 0, "0", "0"},
		{big.NewInt(-1), 1, "-0.1", "-0.1"},
		{big.NewInt(1 << 62), 30, "4.611686018427387904E-12", "4.611686018427388e-12"},
		{largest, 0, strings.Repeat("9", 34), "1e+34"},
		{new(big.Int).Neg(largest), 34, "-0." + strings.Repeat("9", 34), "-1"},
		{ten(34), 0, "1.000000000000000000000000000000000E+34", "1e+34"},
		{new(big.Int).Add(ten(34), big.NewInt(1)), 0, "", "1e+34"},
		{ten(60), 30, "1000000000000000000000000000000.000", "1e+30"},
		{new(big.Int).Mul(big.NewInt(-15), ten(200)), 0, "-1.500000000000000000000000000000000E+201", "-1.5e+201"},
		{ten(400), 0, "1.000000000000000000000000000000000E+400", ""},
		{big.NewInt(1), 6176, "1E-6176", "0"},
		{big.NewInt(10), 6177, "1E-6176", "0"},
		{big.NewInt(1), 6177, "", "0"},
		{big.NewInt(0), 9000, "0E-6176", "0"},
		{big.NewInt(15), -2, "1.5E+3", "1500"},
		{big.NewInt(-1), -6111, "-1E+6111", ""},
		{big.NewInt(1), -6114, "1.000E+6114", ""},
		{big.NewInt(-7), -6144, "-7.000000000000000000000000000000000E+6144", ""},
		{big.NewInt(7), -6145, "", ""},
		{largest, -6111, "9." + strings.Repeat("9", 33) + "E+6144", ""},
		{ten(34), -6111, "", ""},
		{big.NewInt(1), math.MinInt32, "", ""},
		{big.NewInt(1), math.MaxInt32, "", "0"},
		{big.NewInt(0), math.MinInt32, "0E+6111", "0"},
		{big.NewInt(3), -25, "3E+25", "3e+25"},
	} {
		out, _, err := AsDecimals.append(nil, twosComplement(test.number), test.scale)
		if (err == nil) != (test.want != "") || err != nil && err.Reason != BadNumber {
			t.Errorf("%v scaled by %d: %v, want %q", test.number, test.scale, err, test.want)
		} else if err == nil {
			got := bson.NewDecimal128(binary.LittleEndian.Uint64(out[8:]), binary.LittleEndian.Uint64(out)).String()
			if got != test.want {
				t.Errorf("%v scaled by %d is %s, want %s", test.number, test.scale, got, test.want)
			}
		}
		if out, _, err = AsDoubles.append(nil, twosComplement(test.number), test.scale); (err == nil) != (test.double != "") {
			t.Errorf("%v scaled by %d: %v, want %q", test.number, test.scale, err, test.double)
		} else if err == nil {
			if got := fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(out))); got != test.double {
				t.Errorf("%v scaled by %d is %s, want %s", test.number, test.scale, got, test.double)
			}
		}
	}
	if _, _, err := AsDecimals.append(nil, bytes.Repeat([]byte{1}, 2000), 0); err == nil || err.Reason != BadNumber {
		t.Errorf("a number of 2,000 bytes: %v", err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		number, scale := big.NewInt(random.Int64()), random.IntN(40)-20
		if random.IntN(2) == 0 {
			number.Mul(number, big.NewInt(random.Int64N(1e14)))
		}
		if random.IntN(2) == 0 {
			number.Neg(number)
		}
		want, ok := bson.ParseDecimal128FromBigInt(number, -scale)
		if out, _, err := AsDecimals.append(nil, twosComplement(number), scale); (err == nil) != ok {
			t.Fatalf("%v: %v, the driver says %v", number, err, ok)
		} else if high, low := want.GetBytes(); ok && (binary.LittleEndian.Uint64(out[8:]) != high || binary.LittleEndian.Uint64(out) != low) {
			t.Fatalf("%v scaled by %d differs from %v", number, scale, want)
		}
	}
}

// TestDecimalsBecomeDoubles checks this with the option set, in one pass and through the document.
func TestDecimalsBecomeDoubles(t *testing.T) {
	o := avroOptions(readingSchema(`{"name":"x","type":["null",{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}]}`))
	o.Decimals = AsDoubles
	d := newDecoder(t, o)
	for range 2 {
		m := decodeOne(t, d, record.Record{Offset: 7, Timestamp: recordTime, Value: []byte(readingOfAvro + "\x02\x02\x85")})
		if got := document(t, m.Elements).Lookup("x"); got.Type != bson.TypeDouble || got.Double() != -1.23 {
			t.Errorf("it is %v", got)
		}
		d.avroPlan = nil
	}
}

// twosComplement encodes a number as Java's BigInteger does.
func twosComplement(n *big.Int) []byte {
	size := uint(n.BitLen()/8 + 1)
	if n.Sign() >= 0 {
		return n.FillBytes(make([]byte, size))
	}
	return new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 8*size)).FillBytes(make([]byte, size))
}

// TestDecimalsStayDoublesAfterALargeRecord checks that EVENT_DECIMALS=double outlives the release of large buffers, and that it
// applies to the events that commands show.
func TestDecimalsStayDoublesAfterALargeRecord(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"t","type":"long"},
		{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}},{"name":"a","type":{"type":"array","items":"int"}}]}`
	d := newDecoder(t, Options{Format: Avro, Schema: schema, TimeField: "t", TimeFormat: "unix", MetaFrom: MetaFromNone, Decimals: AsDoubles})
	event := func(items int) []byte {
		value := append(binary.AppendVarint(nil, 1_700_000_000), 2, 15)
		if items > 0 {
			value = append(binary.AppendVarint(value, int64(items)), make([]byte, items)...)
		}
		return append(value, 0)
	}
	for _, items := range []int{0, 440_000, 0, 0} {
		m := decodeOne(t, d, record.Record{Timestamp: 1_700_000_000_000, Value: event(items)})
		if e := elementOf(document(t, m.Elements), "d"); e.Kind != bson.TypeDouble {
			t.Errorf("with %d items it is a %s", items, e.Kind)
		}
	}
	events := d.Events(record.Record{Timestamp: 1_700_000_000_000, Value: event(0)})
	if len(events) != 1 || elementOf(events[0], "d").Kind != bson.TypeDouble {
		t.Errorf("shown as %v", events)
	}
}
