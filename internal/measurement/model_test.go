package measurement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestJSONAgreesWithNaiveModel decodes random events, and compares each with the result of encoding/json and the driver's
// encoder.
func TestJSONAgreesWithNaiveModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDecoder(t, plainOptions)
	for range 3000 {
		var text strings.Builder
		writeObject(random, &text, 0)
		event := `{"time": 1700000000, "meta": ` + text.String() + `, "x": ` + text.String() + `}`
		m := decodeOne(t, d, recordOf(event))

		var model map[string]any
		naive := json.NewDecoder(strings.NewReader(event))
		naive.UseNumber()
		if err := naive.Decode(&model); err != nil {
			t.Fatal(err)
		}
		got := document(t, m.Elements)
		if problem := differs(got.Lookup("x"), model["x"]); problem != "" {
			t.Fatalf("%s\nx: %s", event, problem)
		}
		if problem := differs(m.Meta, model["meta"]); problem != "" {
			t.Fatalf("%s\nmeta: %s", event, problem)
		}
		m.Meta.Value = bytes.Clone(m.Meta.Value) // the next Decode overwrites it
		if again := decodeOne(t, d, recordOf(`{"time": 1700000000, "meta": `+sortedJSON(t, model["meta"])+`}`)).Meta; !again.Equal(m.Meta) {
			t.Fatalf("%s\nmeta differs when its fields come sorted:\n%s\n%s", event, m.Meta, again)
		}
	}
}

// sortedJSON formats a value as encoding/json does, with the names of objects sorted by bytes.
func sortedJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// differs describes the difference between a BSON value and the model's. Empty means none.
func differs(got bson.RawValue, want any) string {
	switch want := want.(type) {
	case nil:
		return unless(got.Type == bson.TypeNull, got, want)
	case bool:
		b, ok := got.BooleanOK()
		return unless(ok && b == want, got, want)
	case string:
		s, ok := got.StringValueOK()
		return unless(ok && s == want, got, want)
	case json.Number:
		return unless(sameNumber(got, string(want)), got, want)
	case []any:
		array, ok := got.ArrayOK()
		if !ok {
			return unless(false, got, want)
		}
		values, err := array.Values()
		if err != nil || len(values) != len(want) {
			return fmt.Sprintf("%s has not %d values (%v)", got, len(want), err)
		}
		for i := range want {
			if problem := differs(values[i], want[i]); problem != "" {
				return problem
			}
		}
		return ""
	case map[string]any:
		object, ok := got.DocumentOK()
		if !ok {
			return unless(false, got, want)
		}
		elements, err := object.Elements()
		if err != nil || len(elements) != len(want) {
			return fmt.Sprintf("%s has not %d fields (%v)", got, len(want), err)
		}
		for _, e := range elements {
			if problem := differs(e.Value(), want[e.Key()]); problem != "" {
				return problem
			}
		}
		return ""
	}
	return fmt.Sprintf("unknown %T", want)
}

func unless(ok bool, got bson.RawValue, want any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf("%s, want %#v", got, want)
}

// sameNumber decides with arbitrary precision which type a number must have.
func sameNumber(got bson.RawValue, text string) bool {
	whole, isInteger := new(big.Int).SetString(text, 10)
	if isInteger && whole.IsInt64() && text != "-0" {
		n := whole.Int64()
		if n >= math.MinInt32 && n <= math.MaxInt32 {
			v, ok := got.Int32OK()
			return ok && int64(v) == n
		}
		v, ok := got.Int64OK()
		return ok && v == n
	}
	f, err := strconv.ParseFloat(text, 64)
	v, ok := got.DoubleOK()
	return err == nil && ok && math.Float64bits(v) == math.Float64bits(f)
}

func writeObject(random *rand.Rand, w *strings.Builder, depth int) {
	w.WriteByte('{')
	for i := range random.IntN(5) {
		if i > 0 {
			w.WriteString(pick(random, ",", " ,\n", ", "))
		}
		fmt.Fprintf(w, `"%s%d"%s`, pick(random, "a", "name", "é", `\u0062`, `q\"`, "😀"), i, pick(random, ":", " : "))
		writeValue(random, w, depth+1)
	}
	w.WriteByte('}')
}

func writeValue(random *rand.Rand, w *strings.Builder, depth int) {
	kind := random.IntN(8)
	switch {
	case kind == 0 && depth < 4:
		writeObject(random, w, depth)
	case kind == 1 && depth < 4:
		w.WriteByte('[')
		for i := range random.IntN(12) {
			if i > 0 {
				w.WriteByte(',')
			}
			writeValue(random, w, depth+1)
		}
		w.WriteByte(']')
	case kind == 2:
		w.WriteString(pick(random, `""`, `"text"`, `"é\u00e9\ud83d\ude00"`, `"a.b\\\/\b\f\n\r\t"`, `"\u0000"`, `"<&>\u2028"`))
	case kind == 3:
		w.WriteString(pick(random, "null", "true", "false"))
	default:
		writeNumber(random, w)
	}
}

func writeNumber(random *rand.Rand, w *strings.Builder) {
	if random.IntN(2) == 0 {
		w.WriteByte('-')
	}
	switch random.IntN(4) {
	case 0:
		w.WriteString(pick(random, "0", "2147483647", "2147483648", "2147483649", "9223372036854775807", "9223372036854775808",
			"9223372036854775809", "9999999999999999999", "10000000000000000000", "18446744073709551616", "0.0", "5e-324", "1e-999"))
	case 1:
		fmt.Fprint(w, random.Uint64()>>random.IntN(64))
	case 2:
		w.Write(bytes.TrimPrefix(strconv.AppendFloat(nil, random.NormFloat64()*math.Pow10(random.IntN(40)-20), 'g', -1, 64), []byte("-")))
	case 3:
		fmt.Fprintf(w, "%d.%d%s", random.IntN(1000), random.Uint64()>>random.IntN(64), pick(random, "", "e5", "E-5", "e+15"))
	}
}

func pick(random *rand.Rand, choices ...string) string { return choices[random.IntN(len(choices))] }
