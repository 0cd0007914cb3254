package rows

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is a time to begin with.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)

// value encodes a value. Nil means none.
func value(t testing.TB, v any) bson.RawValue {
	t.Helper()
	if v == nil {
		return bson.RawValue{}
	}
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

func row(t testing.TB, seconds int, meta any, fields bson.D) Row {
	t.Helper()
	raw, err := bson.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return Row{Time: noon.Add(time.Duration(seconds) * time.Second), Meta: value(t, meta), Fields: raw}
}

// some rows: metas of several forms, values of many types, a field that has the name of a part of the meta.
func some(t testing.TB) []Row {
	t.Helper()
	sensor := bson.D{{Key: "sensor", Value: "s-17"}, {Key: "site", Value: "north, \"2\""}}
	decimal, err := bson.ParseDecimal128("12.50")
	if err != nil {
		t.Fatal(err)
	}
	return []Row{
		row(t, 0, sensor, bson.D{{Key: "celsius", Value: 21.4}, {Key: "humidity", Value: 40}}),
		row(t, 1, sensor, bson.D{{Key: "celsius", Value: -3.0}, {Key: "note", Value: "a\x1b[31m\nb"}, {Key: "site", Value: bson.Null{}}}),
		row(t, 2, "plain", bson.D{{Key: "wind", Value: bson.D{{Key: "speed", Value: int64(1) << 60}, {Key: "from", Value: "NW"}}}}),
		row(t, 3, nil, bson.D{
			{Key: "price", Value: decimal},
			{Key: "at", Value: bson.DateTime(0)},
			{Key: "id", Value: bson.Binary{Subtype: 4, Data: bytes.Repeat([]byte{0xab}, 16)}},
			{Key: "bytes", Value: bson.Binary{Data: []byte("bytes")}},
			{Key: "list", Value: bson.A{1, "x", math.NaN()}},
			{Key: "ok", Value: true},
		}),
	}
}

// written is what a writer makes of rows.
func written(t testing.TB, make func(io.Writer, Options) Writer, o Options, list []Row) (string, Writer) {
	t.Helper()
	if o.TimeField == "" {
		o.TimeField, o.MetaField = "time", "meta"
	}
	var out bytes.Buffer
	w := make(&out, o)
	for _, r := range list {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String(), w
}

func TestGolden(t *testing.T) {
	named := Options{Fields: []string{"wind.speed", "celsius", "none"}, Location: time.FixedZone("X", 3600)}
	for name, c := range map[string]struct {
		make func(io.Writer, Options) Writer
		o    Options
	}{
		"table": {NewTable, Options{}}, "table-named": {NewTable, named},
		"csv": {NewCSV, Options{}}, "csv-named": {NewCSV, named},
		"json": {NewJSON, Options{}}, "json-named": {NewJSON, named},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := written(t, c.make, c.o, some(t))
			file := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLateFieldsAreNotLost: a table writes them by name, CSV tells of them, JSON has them.
func TestLateFieldsAreNotLost(t *testing.T) {
	var list []Row
	for i := range headerRows {
		list = append(list, row(t, i, "m", bson.D{{Key: "a", Value: i}}))
	}
	for i := range 3 {
		list = append(list, row(t, i, bson.D{{Key: "x", Value: 1}}, bson.D{{Key: "late", Value: i}}))
	}
	table, _ := written(t, NewTable, Options{}, list)
	if !strings.Contains(table, "x=1 late=2\n") {
		t.Errorf("the table ends with %q", table[len(table)-80:])
	}
	text, w := written(t, NewCSV, Options{}, list)
	names, rows := w.Omitted()
	if rows != 3 || cmp.Diff([]string{"x", "late"}, names) != "" {
		t.Errorf("CSV omitted %v in %d rows", names, rows)
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) != len(list)+1 || cmp.Diff([]string{"time", "meta", "a"}, records[0]) != "" {
		t.Errorf("%d records, %v", len(records), err)
	}
	lines, _ := written(t, NewJSON, Options{}, list)
	if strings.Count(lines, "\n") != len(list) || !strings.Contains(lines, `"meta":{"x":1},"late":2}`) {
		t.Errorf("JSON ends with %q", lines[len(lines)-80:])
	}
}

// TestJSONIsTheDocument: a line, read again, has the row's values; relaxed Extended JSON does not keep how wide whole numbers are.
func TestJSONIsTheDocument(t *testing.T) {
	lines, _ := written(t, NewJSON, Options{}, some(t)[:3])
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		var back bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(line), false, &back); err != nil {
			t.Fatal(err)
		}
		if at := back.Lookup("time").Time(); !at.Equal(noon.Add(time.Duration(i) * time.Second)) {
			t.Errorf("line %d has the time %v", i, at)
		}
		elements, _ := some(t)[i].Fields.Elements()
		for _, e := range elements {
			if got := back.Lookup(e.Key()); Text(got, nil) != Text(e.Value(), nil) {
				t.Errorf("line %d: %s is %v, want %v", i, e.Key(), got, e.Value())
			}
		}
	}
}

func TestValuesAsText(t *testing.T) {
	for want, v := range map[string]any{
		"21": 21.0, "0.1": 0.1, "1e-07": 1e-7, "NaN": math.NaN(), "-Inf": math.Inf(-1), "1e+21": 1e21, "9007199254740993": int64(1)<<53 + 1,
		"1970-01-01T00:00:00.000Z": bson.DateTime(0), "a,b": "a,b", "false": false, "null": bson.Null{}, `{"a":1}`: bson.D{{Key: "a", Value: 1}},
		"000000000000000000000000": bson.ObjectID{}, "[]": bson.A{}, `{"$minKey":1}`: bson.MinKey{},
	} {
		if got := Text(value(t, v), nil); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestLabels(t *testing.T) {
	for want, meta := range map[string]any{
		"(no meta)": nil, "s-17": "s-17", "7": 7, "{}": bson.D{},
		"a=1 b=x c={\"d\":2}": bson.D{{Key: "a", Value: 1}, {Key: "b", Value: "x"}, {Key: "c", Value: bson.D{{Key: "d", Value: 2}}}},
	} {
		if got := Label(value(t, meta)); got != want {
			t.Errorf("%v is %q, want %q", meta, got, want)
		}
	}
}

// TestTableKeepsNothing: what a table holds does not grow with the rows.
func TestTableKeepsNothing(t *testing.T) {
	for name, make := range map[string]func(io.Writer, Options) Writer{"table": NewTable, "csv": NewCSV, "json": NewJSON} {
		lines := 0
		w := make(counter{&lines}, Options{TimeField: "time", MetaField: "meta"})
		r := row(t, 0, bson.D{{Key: "s", Value: 1}}, bson.D{{Key: "a", Value: 1.5}, {Key: "b", Value: "text"}})
		write := func() {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		for range headerRows {
			write()
		}
		if n := testing.AllocsPerRun(1000, write); n > 60 {
			t.Errorf("%s: %v allocations a row", name, n)
		}
		if lines == 0 {
			t.Errorf("%s: nothing was written after %d rows", name, headerRows+1000)
		}
	}
}

// counter counts what is written.
type counter struct{ n *int }

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) { *c.n += len(p); return len(p), nil }

func TestRowsTellWhatTheyHave(t *testing.T) {
	r := some(t)[2]
	if v, there, ok := r.Number("wind.speed"); v != 1<<60 || !there || !ok {
		t.Errorf("%v %v %v", v, there, ok)
	}
	if _, there, ok := r.Number("wind.from"); !there || ok {
		t.Error("text is no number")
	}
	if r.Has("celsius") || !r.Has("wind") || fmt.Sprint(r.Names()) != "[wind]" || fmt.Sprint(some(t)[0].MetaNames()) != "[sensor site]" {
		t.Error("names")
	}
}
