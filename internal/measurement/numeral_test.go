package measurement

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestNumbersInTextsAreRead(t *testing.T) {
	o := Options{TimeField: "t", MetaField: "m", Numbers: NumbersInText}
	for text, want := range map[string]string{
		"0": `{"$numberInt":"0"}`, "-5": `{"$numberInt":"-5"}`, "21.50": `{"$numberDouble":"21.5"}`, "2.4385e-05": `{"$numberDouble":"2.4385e-05"}`,
		"NaN": `{"$numberDouble":"NaN"}`, "+Inf": `{"$numberDouble":"Infinity"}`, "-Inf": `{"$numberDouble":"-Infinity"}`, "Infinity": `{"$numberDouble":"Infinity"}`,
		"18446744073709551615": `{"$numberDouble":"1.8446744073709552e+19"}`, "9007199254740993": `{"$numberLong":"9007199254740993"}`, "+5": `{"$numberInt":"5"}`,
		" 21.5 ": `{"$numberDouble":"21.5"}`, "007": `"007"`, "1.": `"1."`, ".5": `".5"`, "0x1F": `"0x1F"`, "21.5 C": `"21.5 C"`, "": `""`, "-": `"-"`, "1e999": `"1e999"`,
		"1e": `"1e"`, "on": `"on"`, "1,2,3": `"1,2,3"`, "10.0.0.1": `"10.0.0.1"`, "Inf.": `"Inf."`, "--1": `"--1"`, "+-1": `"+-1"`, "+": `"+"`, "1-2": `"1-2"`,
		"nan": `"nan"`, "inf": `"inf"`, "-infinity": `"-infinity"`, "NAN": `"NAN"`, "+INF": `"+INF"`,
	} {
		for _, quickly := range []bool{true, false} {
			for _, around := range []string{`%`, `[%]`, `{"y":[1,{"z":%}]}`} {
				d := newDecoder(t, o)
				d.quick.off = !quickly
				m := decodeOne(t, d, recordOf(`{"t":1700000000,"m":"5","x":`+strings.ReplaceAll(around, "%", `"`+text+`"`)+`}`))
				full := `{"x": ` + strings.NewReplacer("%", want, `"y":[1,`, `"y": [{"$numberInt":"1"},`, `"z":`, `"z": `).Replace(around) + `}`
				if got := shown(t, m); !strings.EqualFold(got, `1700000000000 "5" `+full) {
					t.Errorf("%q, quickly %v: %s, want %s", text, quickly, got, full)
				}
			}
		}
	}
}

func TestDecimalCommaIsRefused(t *testing.T) {
	o := Options{TimeField: "t", MetaFrom: MetaFromNone, Numbers: NumbersInText}
	for _, text := range []string{"21,5", "1.234,5", "-0,25", "1,234.5", "1,234,567", " 3,0"} {
		err := refusal(t, newDecoder(t, o), recordOf(`{"t":1700000000,"a":{"x":"`+text+`"}}`))
		if err.Reason != BadNumber || err.Path != "a.x" || !strings.Contains(err.Detail, `"`+text+`" has a comma, but EVENT_NUMBERS=text reads numbers with a point`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	o.Numbers = ""
	if got := shown(t, decodeOne(t, newDecoder(t, o), recordOf(`{"t":1700000000,"x":"21,5"}`))); got != `1700000000000 absent {"x": "21,5"}` {
		t.Errorf("without the setting: %s", got)
	}
}

// FuzzNumerals checks that numbers parse as with strconv, and that other texts do not change.
func FuzzNumerals(f *testing.F) {
	for _, text := range []string{"0", "-5", "21.50", "2.4385e-05", "NaN", "+Inf", "007", "1e999", " 1 ", "+-1", "9223372036854775808", "-0", "1e", "\u00a01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kind, out := appendNumeral(nil, []byte(text))
		want, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		switch kind {
		case 0:
			if len(out) > 0 {
				t.Fatalf("%q is none, and %x", text, out)
			}
		case bson.TypeInt32, bson.TypeInt64:
			if got := integerOf(kind, out); err != nil || float64(got) != want {
				t.Fatalf("%q is read as %d, want %v", text, got, want)
			}
		default:
			if got := math.Float64frombits(binary.LittleEndian.Uint64(out)); err != nil || got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("%q is read as %v, want %v, %v", text, got, want, err)
			}
		}
		if kind != 0 && !mayBeNumeral([]byte(text)) {
			t.Fatalf("%q is not looked at", text)
		}
	})
}
