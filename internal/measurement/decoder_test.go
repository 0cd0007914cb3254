package measurement

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// recordTime is the timestamp of the tests' records, in milliseconds. eventTime is the time of their events, in seconds.
const (
	recordTime = 1_700_000_060_000
	eventTime  = 1_700_000_000
)

var plainOptions = Options{TimeField: "time", MetaField: "meta", StoredTime: "time", StoredMeta: "meta"}

func newDecoder(t testing.TB, o Options) *Decoder {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func recordOf(value string) record.Record {
	return record.Record{Offset: 7, Timestamp: recordTime, Value: []byte(value)}
}

// decodeOne decodes a record that must hold one measurement.
func decodeOne(t testing.TB, d *Decoder, r record.Record) Measurement {
	t.Helper()
	results, err := d.Decode(r)
	if err != nil {
		t.Fatalf("decoding %s: %v", r.Value, err)
	}
	if len(results) != 1 || results[0].Err != nil {
		t.Fatalf("decoding %s: %v, want one measurement", r.Value, results)
	}
	return results[0].Measurement
}

// refusal decodes a record that must be refused as a whole, and returns the error.
func refusal(t testing.TB, d *Decoder, r record.Record) *DecodeError {
	t.Helper()
	results, err := d.Decode(r)
	var refused *DecodeError
	if !errors.As(err, &refused) {
		t.Fatalf("decoding %.200s: %v and error %v, want a *DecodeError", r.Value, results, err)
	}
	if results != nil || refused.Part != record.WholeRecord || refused.Value != nil {
		t.Fatalf("decoding %.200s: results %v, part %d, value %q; want only an error of the whole record", r.Value, results,
			refused.Part, refused.Value)
	}
	return refused
}

// document returns a document of a measurement's elements, and checks that it is valid.
func document(t testing.TB, elements []byte) bson.Raw {
	t.Helper()
	raw := bson.Raw(rawbson.EndDocument(append(make([]byte, 4), elements...), 0))
	if err := raw.Validate(); err != nil {
		t.Fatalf("elements %x: %v", elements, err)
	}
	return raw
}

// shown returns a measurement as canonical Extended JSON.
func shown(t testing.TB, m Measurement) string {
	t.Helper()
	meta := "absent"
	if m.Meta.Type != 0 {
		meta = m.Meta.String()
	}
	return fmt.Sprintf("%d %s %s", m.Time, meta, document(t, m.Elements))
}

func TestDecodeValues(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"int32", `1, "y": -2147483648, "z": 2147483647`, `"x": {"$numberInt":"1"},"y": {"$numberInt":"-2147483648"},"z": {"$numberInt":"2147483647"}`},
		{"int64", `2147483648, "y": -9223372036854775808`, `"x": {"$numberLong":"2147483648"},"y": {"$numberLong":"-9223372036854775808"}`},
		{"beyond int64", `9223372036854775808`, `"x": {"$numberDouble":"9.223372036854776E+18"}`},
		{"fraction", `1.0`, `"x": {"$numberDouble":"1.0"}`},
		{"exponent", `1e3`, `"x": {"$numberDouble":"1000.0"}`},
		{"zero and minus zero", `0, "y": -0`, `"x": {"$numberInt":"0"},"y": {"$numberDouble":"-0.0"}`},
		{"underflow", `1e-400`, `"x": {"$numberDouble":"0.0"}`},
		{"literals", `null, "y": true, "z": false`, `"x": null,"y": true,"z": false`},
		{"escapes", `"a\u00e9\n\ud83d\ude00\u0000"`, `"x": "aé\n😀\u0000"`},
		{"nested", `{"a": [1, {"b": []}, "c"], "d": {}}`, `"x": {"a": [{"$numberInt":"1"},{"b": []},"c"],"d": {}}`},
		{"escaped name", `1, "\u0062": 2`, `"x": {"$numberInt":"1"},"b": {"$numberInt":"2"}`},
		{"_id", `1, "_id": "q"`, `"x": {"$numberInt":"1"},"_id": "q"`},
	}
	d := newDecoder(t, plainOptions)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := decodeOne(t, d, recordOf(fmt.Sprintf(`{"time": %d, "x": %s, "meta": "m"}`, eventTime, test.value)))
			want := fmt.Sprintf("%d000 %q {%s}", eventTime, "m", test.want)
			if got := shown(t, m); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if m.Position != (timeseries.Position{Offset: 7}) {
				t.Errorf("position %v", m.Position)
			}
		})
	}
}

func TestTombstoneIsNothing(t *testing.T) {
	results, err := newDecoder(t, plainOptions).Decode(record.Record{Offset: 7})
	if results != nil || err != nil {
		t.Errorf("got %v, %v", results, err)
	}
}

func TestTimeAndMetaAreTakenFromTheirPaths(t *testing.T) {
	tests := []struct{ name, time, meta, event, want string }{
		{
			"nested", "h.at", "h.id", `{"h": {"at": 1700000000, "v": 1, "id": 5}, "x": 2}`,
			`1700000000000 {"$numberInt":"5"} {"h": {"v": {"$numberInt":"1"}},"x": {"$numberInt":"2"}}`,
		},
		{
			"emptied objects go", "a.b.at", "a.id", `{"a": {"b": {"at": 1700000000}, "id": 5}, "x": {}}`,
			`1700000000000 {"$numberInt":"5"} {"x": {}}`,
		},
		{
			"dotted names lead there too", "a.b.at", "id", `{"a.b.at": 1700000000, "a": {"c": 1}, "id": "s"}`,
			`1700000000000 "s" {"a": {"c": {"$numberInt":"1"}}}`,
		},
		{
			"the time's name is free elsewhere", "at", "id", `{"at": 1700000000, "id": "s", "x": {"time": 1, "at": 2}}`,
			`1700000000000 "s" {"x": {"time": {"$numberInt":"1"},"at": {"$numberInt":"2"}}}`,
		},
		{"record's timestamp", "", "id", `{"at": 3, "id": null}`, `1700000060000 null {"at": {"$numberInt":"3"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newDecoder(t, Options{TimeField: test.time, MetaField: test.meta, StoredTime: "time", StoredMeta: "meta"})
			if got := shown(t, decodeOne(t, d, recordOf(test.event))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestDottedNamesNest(t *testing.T) {
	tests := []struct{ event, want string }{
		{`{"a.b": 1, "x": 0, "a.c": 2}`, `{"a": {"b": {"$numberInt":"1"},"c": {"$numberInt":"2"}},"x": {"$numberInt":"0"}}`},
		{`{"a": {"b": 1}, "a.c.d": [{"e.f": null}]}`, `{"a": {"b": {"$numberInt":"1"},"c": {"d": [{"e": {"f": null}}]}}}`},
		{`{"a.c": 2, "a": {"b.x": 1, "b.y": 3}}`, `{"a": {"c": {"$numberInt":"2"},"b": {"x": {"$numberInt":"1"},"y": {"$numberInt":"3"}}}}`},
		{`{"a\u002eb": "é.é"}`, `{"a": {"b": "é.é"}}`},
	}
	d := newDecoder(t, Options{MetaFrom: MetaFromNone})
	for _, test := range tests {
		if got := document(t, decodeOne(t, d, recordOf(test.event)).Elements).String(); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.event, got, test.want)
		}
	}
	clashes := []struct{ event, path string }{
		{`{"a.b": 1, "a.b": 2}`, "a.b"},
		{`{"a": 1, "a.b": 2}`, "a"},
		{`{"a.b": 2, "a": []}`, "a"},
		{`{"x.y": 2, "a": {"b": 1}, "a.b": {"c": 1}}`, "a.b"},
		{`{"x.y": 2, "a": {}, "a": {}}`, "a"},
		{`{"x": [{"a.b": 1, "a.b.c": 2}]}`, "x.0.a.b"},
	}
	for _, clash := range clashes {
		if err := refusal(t, d, recordOf(clash.event)); err.Reason != DuplicateField || err.Path != clash.path {
			t.Errorf("%s: %v, want a duplicate field at %s", clash.event, err, clash.path)
		}
	}
}

func TestDecodeReusesItsBuffers(t *testing.T) {
	d := newDecoder(t, plainOptions)
	object := recordOf(exampleEvent)
	array := recordOf("[" + exampleEvent + "," + exampleEvent + "]")
	if n := testing.AllocsPerRun(100, func() {
		for _, r := range []record.Record{object, array} {
			if _, err := d.Decode(r); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
