package check

import (
	"fmt"
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// TestEvidenceOfALargeSampleIsBounded covers events with ever new names and values, and long ones.
func TestEvidenceOfALargeSampleIsBounded(t *testing.T) {
	e := newEvidence("events", true)
	for i := range 5000 {
		value := fmt.Sprintf(`{"id":"%d","n%d":%d,"deep":{"a":{"b":{"c":{"d":{"e":{"f":{"g":1}}}}}}},"list":[%s]}`, i, i, i, strings.Repeat(`{"x":1},`, 50)+`{"y":2}`)
		e.add(0, &record.Record{Offset: int64(i), Key: fmt.Append(nil, i), Value: []byte(value)})
	}
	if len(e.fields) != mostPaths || !e.crowded {
		t.Errorf("%d fields", len(e.fields))
	}
	s := sampler{evidence: e, view: Sample{Topic: "events", Records: 1}, bad: map[string]*Bad{}, variety: newVariety()}
	var found Findings
	s.judge(&found)
	if !found.has(Note, "more than 1,000 different field names") || !found.has(OK, "1 record is 0 measurements") {
		t.Errorf("%+v", found)
	}
	if id := e.at("id"); id.seen != 5000 || len(id.values.kept) > keptValues || len(id.byKey.kept) > keptValues {
		t.Errorf("%d values of id are kept", len(id.values.kept))
	}
	if e.at("deep.a.b.c.d.e.f").objects == 0 || e.at("deep.a.b.c.d.e.f.g").seen != 0 {
		t.Error("not seven levels")
	}
	if list := e.at("list"); list.rows != 5000 || list.longest != 51 || e.at("list[].x").numbers == 0 || e.at("list[].y").seen != 0 {
		t.Errorf("%+v", list)
	}
}

// TestKeptRecordsAreSpreadOverTheSample checks that the kept records are not the first ones, and stay within their bounds.
func TestKeptRecordsAreSpreadOverTheSample(t *testing.T) {
	var k kept
	value := make([]byte, 64<<10)
	const n = 2000
	for i := range n {
		k.keep(0, &record.Record{Offset: int64(i), Value: value}, true)
	}
	if k.bytes > keptBytes || len(k.list)*len(value) < keptBytes/4 {
		t.Errorf("%d records of %d bytes are kept", len(k.list), k.bytes)
	}
	parts := map[int64]int{}
	for _, r := range k.list {
		parts[r.Offset*4/n]++
	}
	for part := range int64(4) {
		if parts[part]*8 < len(k.list) {
			t.Errorf("%d of %d are of quarter %d", parts[part], len(k.list), part)
		}
	}
	for i := range 20_000 {
		k.keep(0, &record.Record{Offset: int64(i), Value: []byte("{}")}, i%2 == 0)
	}
	if probe := k.probe(); len(probe) > probedRecords || len(probe) < probedRecords/8 {
		t.Errorf("%d records are probed", len(probe))
	}
}

// TestWhatTextsLookLike covers numbers in several notations, JSON and base64.
func TestWhatTextsLookLike(t *testing.T) {
	for text, want := range map[string]string{
		"21.5": "numeral", "-3": "numeral", "2.4385e-05": "numeral", "NaN": "numeral", "+Inf": "numeral", ".5": "numeral", "418.": "numeral",
		"21,5": "comma", "1.234,5": "comma", "1,234.5": "comma", "21.5 °C": "unit", "230V": "unit", "55 %": "unit",
		`{"t":1}`: "document", "[1]": "document", "AxY=": "encoded",
		"007": "", "No alarm": "", "": "", "1.2.3": "", "a=b=": "", "{bad": "", "12:00": "", "10.0.0.1": "", strings.Repeat("1", 50): "",
	} {
		var f field
		f.inText(text)
		got := strings.Join([]string{
			strings.Repeat("numeral", f.numerals), strings.Repeat("comma", f.commas), strings.Repeat("unit", f.units),
			strings.Repeat("document", f.documents), strings.Repeat("encoded", f.encoded),
		}, "")
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"2026-03-01T12:00:00.123456789Z": true, "2026-03-01T12:00:00.123000Z": false, "2026-03-01T12:00:00.5Z": false, "1772366400123456": true,
		"1772366400123000": false, "1772366400123999999": true, "1772366400123": false, "21.123456": false,
	} {
		if got := isFine(text); got != want {
			t.Errorf("%s has digits below the millisecond: %v", text, got)
		}
	}
	for text, want := range map[string]string{"AxY=": "7.90", "/w==": "-0.01", "AA==": "0.00", "no base64": ""} {
		if got := (decimal{scale: 2}).read(text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
