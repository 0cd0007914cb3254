package measurement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

func TestArrayElementsStandAlone(t *testing.T) {
	d := newDecoder(t, plainOptions)
	const bad = `{"time": 1700000000, "meta": 1, "x": [1, {"$y": 2}]}`
	results, err := d.Decode(recordOf(`[{"time": 1700000000, "meta": 1, "x": 1} , ` + bad + ` , 3, [{}],` +
		"\n" + `{"time": 1700000000, "meta": 2, "x": "` + "\xff" + `"}, {"meta": 2, "time": 1700000001}, {"a":` +
		strings.Repeat("[", 200) + strings.Repeat("]", 200) + `, "b": 1} ] `))
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		Shown, Reason, Path, Value string
	}
	var got []outcome
	for i, r := range results {
		if r.Err == nil {
			got = append(got, outcome{Shown: shown(t, r.Measurement)})
			if want := (timeseries.Position{Offset: 7, Part: int32(i)}); r.Measurement.Position != want {
				t.Errorf("position %v, want %v", r.Measurement.Position, want)
			}
			continue
		}
		if r.Err.Part != int32(i) {
			t.Errorf("part %d of element %d", r.Err.Part, i)
		}
		got = append(got, outcome{Reason: string(r.Err.Reason), Path: r.Err.Path, Value: string(r.Err.Value)})
	}
	want := []outcome{
		{Shown: `1700000000000 {"$numberInt":"1"} {"x": {"$numberInt":"1"}}`},
		{Reason: "bad_field_name", Path: "x.1.$y", Value: bad},
		{Reason: "not_object", Value: "3"},
		{Reason: "not_object", Value: "[{}]"},
		{Reason: "bad_utf8", Path: "x", Value: `{"time": 1700000000, "meta": 2, "x": "` + "\xff" + `"}`},
		{Shown: `1700000001000 {"$numberInt":"2"} {}`},
		{Reason: "too_deep", Path: "a" + strings.Repeat(".0", 99), Value: `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `, "b": 1}`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBrokenArrayIsRefusedWhole(t *testing.T) {
	d := newDecoder(t, plainOptions)
	const good = `{"time": 1700000000, "meta": 1}`
	for _, value := range []string{
		`[` + good, `[` + good + `,`, `[` + good + `,]`, `[` + good + ` ` + good + `]`, `[` + good + `] x`, `[` + good + `]]`,
		`[3, {"$x": 1, "y": nope}]`, `[3, {"x": [}]`, `[,]`, `[` + good + `}`,
	} {
		if err := refusal(t, d, recordOf(value)); err.Reason != NotJSON {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestBadElementsAreBounded checks that up to a hundred bad elements are reported one by one, for any number of good ones. With
// one more the record is refused as a whole, with little memory for any number of them. Broken JSON after them is found.
func TestBadElementsAreBounded(t *testing.T) {
	d := newDecoder(t, plainOptions)
	const good = `{"time": 1700000000, "meta": 1}`
	results, err := d.Decode(recordOf(`[` + good + strings.Repeat(`,3,`+good, maxBadParts) + `]`))
	if err != nil || len(results) != 2*maxBadParts+1 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if err := refusal(t, d, recordOf(`[`+good+strings.Repeat(`,3,`+good, maxBadParts+1)+`]`)); err.Reason != BadElements || err.Part != record.WholeRecord {
		t.Error(err)
	}
	if err := refusal(t, d, recordOf(`[`+good+strings.Repeat(`,3,`+good, 2*maxBadParts)+`,}]`)); err.Reason != NotJSON {
		t.Error(err)
	}
	many := recordOf(`[3` + strings.Repeat(`,3`, 300_000) + `]`)
	if n := testing.AllocsPerRun(1, func() { _ = refusal(t, d, many) }); n > 20*maxBadParts {
		t.Errorf("%v allocations for 300,001 bad elements", n)
	}
}

func TestArrayOfTooManyElements(t *testing.T) {
	d := newDecoder(t, Options{MetaFrom: MetaFromNone, MaxBytes: 8 << 20})
	most := strings.Repeat("{},", timeseries.MaxParts-1) + "{}"
	results, err := d.Decode(recordOf("[" + most + "]"))
	if err != nil || len(results) != timeseries.MaxParts {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if err := refusal(t, d, recordOf("["+most+",{}]")); err.Reason != TooLarge {
		t.Error(err)
	}
	decodeOne(t, d, recordOf("{}"))
	if kept := d.bufferBytes(); kept > keptBytes {
		t.Errorf("%d bytes of buffers are kept", kept)
	}
}
