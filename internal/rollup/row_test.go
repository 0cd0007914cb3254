package rollup

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/timeseries"
)

// fieldsOf returns the fields of a measurement, given in Extended JSON.
func fieldsOf(t testing.TB, text string) bson.Raw {
	t.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON([]byte(text), false, &d); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// written returns a document as relaxed Extended JSON without spaces.
func written(t testing.TB, d bson.Raw) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(d, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRowOfMeasurements(t *testing.T) {
	double := `{"$numberDouble": "%s"}`
	for _, c := range []struct {
		name         string
		rules        Rules
		measurements []string
		want         string
	}{
		{"none", Rules{}, nil, `{"count":0}`},
		{
			"integers stay integers",
			Rules{},
			[]string{`{"a": 1}`, `{"a": 3}`, `{"a": 2}`},
			`{"count":3,"a":{"n":3,"sum":6,"min":1,"max":3,"first":1,"last":2}}`,
		},
		{
			"a double makes the sum a double",
			Rules{},
			[]string{`{"a": 1}`, `{"a": 0.5}`},
			`{"count":2,"a":{"n":2,"sum":1.5,"min":0.5,"max":1,"first":1,"last":0.5}}`,
		},
		{
			"beyond int64 the sum is a double",
			Rules{},
			[]string{`{"a": 9223372036854775807}`, `{"a": 9223372036854775807}`},
			`{"count":2,"a":{"n":2,"sum":1.8446744073709552E+19,"min":9223372036854775807,"max":9223372036854775807,"first":9223372036854775807,"last":9223372036854775807}}`,
		},
		{
			"rounding errors are carried along",
			Rules{},
			[]string{`{"a": 1.0}`, `{"a": 1e100}`, `{"a": 1.0}`, `{"a": -1e100}`},
			`{"count":4,"a":{"n":4,"sum":2.0,"min":-1E+100,"max":1E+100,"first":1.0,"last":-1E+100}}`,
		},
		{
			"text, dates, null and arrays add nothing",
			Rules{},
			[]string{`{"a": "x", "b": null, "c": [1, 2], "d": {"$date": "2026-01-01T00:00:00Z"}, "e": true}`},
			`{"count":1}`,
		},
		{
			"a NaN is left out",
			Rules{},
			[]string{fmt.Sprintf(`{"a": `+double+`}`, "NaN"), `{"a": 2}`, `{"a": {"$numberDecimal": "NaN"}}`},
			`{"count":3,"a":{"n":1,"sum":2,"min":2,"max":2,"first":2,"last":2}}`,
		},
		{
			"infinities",
			Rules{},
			[]string{fmt.Sprintf(`{"a": `+double+`}`, "Infinity"), `{"a": 2.5}`},
			`{"count":2,"a":{"n":2,"sum":{"$numberDouble":"Infinity"},"min":2.5,"max":{"$numberDouble":"Infinity"},"first":{"$numberDouble":"Infinity"},"last":2.5}}`,
		},
		{
			"a Decimal128 has no sum",
			Rules{},
			[]string{`{"a": {"$numberDecimal": "1.5"}}`, `{"a": 1}`},
			`{"count":2,"a":{"n":2,"min":1,"max":{"$numberDecimal":"1.5"},"first":{"$numberDecimal":"1.5"},"last":1}}`,
		},
		{
			"of equal numbers the first stays",
			Rules{},
			[]string{`{"a": 2}`, `{"a": 2.0}`, `{"a": {"$numberLong": "2"}}`},
			`{"count":3,"a":{"n":3,"sum":6.0,"min":2,"max":2,"first":2,"last":2}}`,
		},
		{
			"objects are entered",
			Rules{},
			[]string{`{"wind": {"speed": 1, "gusts": {"n": 5}}}`},
			`{"count":1,"wind":{"speed":{"n":1,"sum":1,"min":1,"max":1,"first":1,"last":1},"gusts":{"n":{"n":1,"sum":5,"min":5,"max":5,"first":5,"last":5}}}}`,
		},
		{
			"a number and an object: the object stays",
			Rules{},
			[]string{`{"a": 1}`, `{"a": {"b": 2}}`, `{"a": 3}`},
			`{"count":3,"a":{"b":{"n":1,"sum":2,"min":2,"max":2,"first":2,"last":2}}}`,
		},
		{
			"an object without numbers is none",
			Rules{},
			[]string{`{"a": 1}`, `{"a": {"b": "x"}}`, `{"a": {}}`},
			`{"count":3,"a":{"n":1,"sum":1,"min":1,"max":1,"first":1,"last":1}}`,
		},
		{
			"the column count hides a field",
			Rules{},
			[]string{`{"count": 7, "a": {"count": 1}}`},
			`{"count":1,"a":{"count":{"n":1,"sum":1,"min":1,"max":1,"first":1,"last":1}}}`,
		},
		{
			"a column of another name does not",
			Rules{Count: "measurements"},
			[]string{`{"count": 7, "measurements": 5}`},
			`{"measurements":1,"count":{"n":1,"sum":7,"min":7,"max":7,"first":7,"last":7}}`,
		},
		{
			"some fields",
			Rules{Fields: Fields{"wind.*", "b"}},
			[]string{`{"a": 1, "b": 2, "wind": {"speed": 3}}`, `{"a": 1, "b": 2}`},
			`{"count":2,"b":{"n":2,"sum":4,"min":2,"max":2,"first":2,"last":2},"wind":{"speed":{"n":1,"sum":3,"min":3,"max":3,"first":3,"last":3}}}`,
		},
	} {
		row := c.rules.NewRow(0)
		for _, m := range c.measurements {
			row.Add(fieldsOf(t, m))
		}
		if got := written(t, row.Document()); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
		folded := c.rules.NewRow(0)
		folded.Fold(row.Document())
		if got := written(t, folded.Document()); got != c.want {
			t.Errorf("%s, folded:\n%s, want\n%s", c.name, got, c.want)
		}
		merged := c.rules.NewRow(0)
		merged.Merge(row)
		if got := written(t, merged.Document()); got != c.want {
			t.Errorf("%s, merged:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

func TestFoldOfRows(t *testing.T) {
	rules := Rules{}
	for _, c := range []struct {
		name string
		rows []string
		want string
	}{
		{"order decides first and last", []string{
			`{"count": {"$numberLong": "2"}, "a": {"n": {"$numberLong": "2"}, "sum": 5, "min": 1, "max": 4, "first": 4, "last": 1}}`,
			`{"count": {"$numberLong": "1"}, "a": {"n": {"$numberLong": "1"}, "sum": 2.5, "min": 2.5, "max": 2.5, "first": 2.5, "last": 2.5}}`,
		}, `{"count":3,"a":{"n":3,"sum":7.5,"min":1,"max":4,"first":4,"last":2.5}}`},
		{"a total without a sum leaves none", []string{
			`{"count": 1, "a": {"n": 1, "min": 1, "max": 1, "first": 1, "last": 1}}`,
			`{"count": 1, "a": {"n": 1, "sum": 2, "min": 2, "max": 2, "first": 2, "last": 2}}`,
		}, `{"count":2,"a":{"n":2,"min":1,"max":2,"first":1,"last":2}}`},
		{"a number in one row and an object in the next", []string{
			`{"count": 1, "a": {"n": 1, "sum": 2, "min": 2, "max": 2, "first": 2, "last": 2}}`,
			`{"count": 1, "a": {"b": {"n": 1, "sum": 3, "min": 3, "max": 3, "first": 3, "last": 3}}}`,
		}, `{"count":2,"a":{"b":{"n":1,"sum":3,"min":3,"max":3,"first":3,"last":3}}}`},
		{"what is no total adds nothing", []string{
			`{"count": 1, "a": 5, "b": {"n": 1}, "c": {"n": -1, "sum": 1, "min": 1, "max": 1, "first": 1, "last": 1}, "d": "x"}`,
		}, `{"count":1}`},
	} {
		row := rules.NewRow(0)
		for _, r := range c.rows {
			row.Fold(fieldsOf(t, r))
		}
		if got := written(t, row.Document()); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

func TestTotalsByName(t *testing.T) {
	rules := Rules{}
	row := rules.NewRow(0)
	row.Add(fieldsOf(t, `{"a": 1, "wind": {"speed": 2.5}, "d": {"$numberDecimal": "1"}}`))
	row.Add(fieldsOf(t, `{"a": 2}`))
	var paths []string
	for path := range row.Fields() {
		paths = append(paths, path)
	}
	if got := strings.Join(paths, " "); got != "a wind.speed d" {
		t.Errorf("the fields are %s", got)
	}
	if mean, ok := row.total("a").mean(); !ok || mean != 1.5 {
		t.Errorf("the mean is %v, %v", mean, ok)
	}
	if _, ok := row.total("d").mean(); ok {
		t.Error("a Decimal128 has a mean")
	}
	if row.total("wind") != nil || row.total("x") != nil {
		t.Error("an object or nothing has a total")
	}
	for range row.Fields() {
		break // the iterator must stop here
	}
}

func TestDocumentIsABucket(t *testing.T) {
	of := timeseries.Options{TimeField: "time", MetaField: "meta"}
	level, _ := LevelOf(Hour)
	o := level.Options(of)
	rules := &Rules{}
	rng := rand.New(rand.NewPCG(1, 2))
	from, _ := level.Period(1_772_000_000_000)
	for _, meta := range []bson.RawValue{{}, fieldsOf(t, `{"m": "s-17"}`).Lookup("m"), fieldsOf(t, `{"m": {"site": "n", "sensor": 1}}`).Lookup("m")} {
		for n := range 25 {
			d := Document{ID: level.ID(meta, from), Meta: meta, From: from, Revision: int64(n) + 1}
			var rows []Stored
			for h := range n {
				row := rules.NewRow(from + int64(h)*hourMs)
				for range rng.IntN(3) {
					row.Add(fieldsOf(t, fmt.Sprintf(`{"a": %d, "f%d": {"x": %g}}`, rng.IntN(100), rng.IntN(3), rng.NormFloat64())))
				}
				rows = append(rows, Stored{row.Time, row.Document()})
			}
			slices.SortFunc(rows, func(a, b Stored) int { return -cmp.Compare(a.Time, b.Time) })
			d.Replace(from, from+dayMs, rows)
			raw := d.Encode(o)
			if err := raw.Validate(); err != nil {
				t.Fatal(err)
			}
			back, err := Decode(raw, o)
			if err != nil {
				t.Fatal(err)
			}
			if back.ID != d.ID || !sameValue(back.Meta, d.Meta) || back.From != d.From || back.Revision != d.Revision || len(back.Rows) != n {
				t.Fatalf("came back as %+v, was %+v", back, d)
			}
			for i := range back.Rows {
				have, want := written(t, sorted(t, back.Rows[i].Fields)), written(t, sorted(t, d.Rows[i].Fields))
				if back.Rows[i].Time != d.Rows[i].Time || have != want {
					t.Fatalf("row %d came back as %s, was %s", i, have, want)
				}
			}
			if !timeseries.IDFits(d.ID, from) {
				t.Error("the _id does not begin with the seconds of the period")
			}
			if closed, _ := raw.Lookup("control", "closed").BooleanOK(); !closed {
				t.Error("the document is open to measurements")
			}
			if to := raw.Lookup("control", "max", "time").DateTime(); to < from || to >= from+dayMs {
				t.Errorf("the largest time is %d, the day begins at %d", to, from)
			}
		}
	}
}

func sameValue(a, b bson.RawValue) bool {
	return a.Type == b.Type && string(a.Value) == string(b.Value)
}

// sorted returns a document with its fields sorted by name, because a bucket keeps no other order.
func sorted(t testing.TB, d bson.Raw) bson.Raw {
	t.Helper()
	var list bson.D
	if err := bson.Unmarshal(d, &list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	raw, err := bson.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestReplaceLeavesOtherWindows(t *testing.T) {
	d := Document{}
	row := func(at int64) Stored { return Stored{Time: at, Fields: bson.Raw{5, 0, 0, 0, 0}} }
	d.Replace(0, 100, []Stored{row(30), row(10), row(20)})
	d.Replace(10, 20, []Stored{row(15)})
	d.Replace(30, 40, nil)
	var times []int64
	for _, r := range d.Rows {
		times = append(times, r.Time)
	}
	if !slices.Equal(times, []int64{15, 20}) {
		t.Errorf("the rows are at %v", times)
	}
}

func TestDocumentsDifferInTheirID(t *testing.T) {
	hour, _ := LevelOf(Hour)
	minute, _ := LevelOf(Minute)
	s := fieldsOf(t, `{"a": "1", "b": 1, "c": {"$numberLong": "1"}}`)
	seen := map[bson.ObjectID]bool{}
	for _, meta := range []bson.RawValue{{}, s.Lookup("a"), s.Lookup("b"), s.Lookup("c"), {Type: bson.TypeNull}} {
		for _, id := range []bson.ObjectID{hour.ID(meta, 0), hour.ID(meta, dayMs), minute.ID(meta, 0)} {
			if seen[id] {
				t.Errorf("%v comes twice", id)
			}
			seen[id] = true
		}
	}
	if a, b := hour.ID(s.Lookup("a"), 0), hour.ID(s.Lookup("a"), 0); a != b {
		t.Error("the same document has two _ids")
	}
}

func TestDamagedDocumentsAreRefused(t *testing.T) {
	o := timeseries.Options{TimeField: "time"}
	for _, text := range []string{
		`{}`, `{"_id": 1}`, `{"control": {"version": 1}, "data": {"x": {"0": 1}}}`, `{"control": {"version": 2}, "data": {"time": {}}}`,
		`{"control": {"version": 1, "count": 5}, "data": {"time": {}}}`,
	} {
		if _, err := Decode(fieldsOf(t, text), o); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// FuzzRow adds and folds arbitrary bytes.
func FuzzRow(f *testing.F) {
	f.Add([]byte(fieldsOf(f, `{"a": 1, "o": {"b": 2.5, "c": {"n": 1}}}`)))
	f.Add([]byte(fieldsOf(f, `{"count": 1, "a": {"n": 1, "sum": 2, "min": 2, "max": 2, "first": 2, "last": 2}}`)))
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		rules := &Rules{}
		row := rules.NewRow(0)
		row.Add(b)
		row.Fold(b)
		if err := row.Document().Validate(); err != nil {
			t.Fatalf("the row is malformed: %v", err)
		}
		once, twice := rules.NewRow(0), rules.NewRow(0)
		once.Fold(row.Document())
		twice.Fold(once.Document())
		if string(once.Document()) != string(twice.Document()) {
			t.Errorf("a fold of one row changes it: %v is %v", once.Document(), twice.Document())
		}
	})
}

func BenchmarkRowAdd(b *testing.B) {
	rules := &Rules{}
	row := rules.NewRow(0)
	m := fieldsOf(b, `{"celsius": 19.5, "humidity": 55.5, "wind": {"speed": 1.5, "direction": 270}, "battery": 4000}`)
	b.ReportAllocs()
	for b.Loop() {
		row.Add(m)
	}
}

// total returns the total of a field by its dotted path. Nil means that the field had no number.
func (w *Row) total(path string) *Total {
	for p, t := range w.Fields() {
		if p == path {
			return t
		}
	}
	return nil
}
