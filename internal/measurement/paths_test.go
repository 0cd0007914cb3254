package measurement

import (
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// inBSON returns the BSON of a JSON event without arrays of events.
func inBSON(t testing.TB, event string) []byte {
	t.Helper()
	j := newJSONReader(false)
	j.begin([]byte(event))
	j.clear()
	if _, err := j.object(1); err != nil {
		t.Fatal(err)
	}
	return j.out
}

// TestEventsAsTheyAre checks the effect of paths on events, in every format.
func TestEventsAsTheyAre(t *testing.T) {
	const telegraf = `{"fields": {"usage": 1.5, "n": 7}, "name": "cpu", "tags": {"host": "a", "cpu": "0"}, "timestamp": 1700000000}`
	const debezium = `{"schema": {"$type": "a", "": 1}, "payload": {"before": null, "after": {"id": 7, "v": 2, "note": "x"},
		"source": {"table": "t", "lsn": 3}, "op": "c", "ts_ms": 1700000000123}}`
	tests := []struct {
		name    string
		options Options
		event   string
		want    string
	}{
		{
			"parts of meta are sorted by their names",
			Options{TimeField: "t", MetaFields: []string{"z", "b = loc.site", "a"}},
			`{"t": 1700000000, "a": {"y": 1, "x": 2}, "z": "s", "loc": {"site": "n", "lat": 1}, "v": 3}`,
			`1700000000000 {"a": {"x": {"$numberInt":"2"},"y": {"$numberInt":"1"}},"b": "n","z": "s"} {"loc": {"lat": {"$numberInt":"1"}},"v": {"$numberInt":"3"}}`,
		},
		{
			"a missing part is absent, one that is null is null",
			Options{TimeField: "t", MetaFields: []string{"a", "b", "c"}},
			`{"t": 1700000000, "c": null, "v": 3}`, `1700000000000 {"c": null} {"v": {"$numberInt":"3"}}`,
		},
		{
			"one part makes an object too",
			Options{MetaFields: []string{"x.id"}},
			`{"x": {"id": 5}}`,
			`1700000060000 {"id": {"$numberInt":"5"}} {}`,
		},
		{
			"Telegraf",
			Options{TimeField: "timestamp", MetaFields: []string{"name", "tags"}, Fields: "fields"},
			telegraf,
			`1700000000000 {"name": "cpu","tags": {"cpu": "0","host": "a"}} {"usage": {"$numberDouble":"1.5"},"n": {"$numberInt":"7"}}`,
		},
		{
			"outside of the fields nothing is stored or checked",
			Options{TimeField: "f.t", MetaField: "id", Fields: "f"},
			`{"id": 1, "$x": {"": 1}, "f": {"t": 1700000000, "v": 2}, "y": 1, "y": 2}`, `1700000000000 {"$numberInt":"1"} {"v": {"$numberInt":"2"}}`,
		},
		{
			"no members are no fields",
			Options{TimeField: "t", MetaField: "id", Fields: "f"},
			`{"id": 1, "t": 1700000000, "f": {}}`,
			`1700000000000 {"$numberInt":"1"} {}`,
		},
		{
			"envelope",
			Options{TimeField: "at", MetaField: "id", Root: "payload"},
			`{"schema": {"fields": []}, "payload": {"at": 1700000000, "id": "a", "v": 1}}`, `1700000000000 "a" {"v": {"$numberInt":"1"}}`,
		},
		{
			"Debezium, with the envelope's time and table",
			Options{TimeField: "/payload.ts_ms", MetaFields: []string{"id", "/payload.source.table"}, Root: "payload.after", Drop: []string{"note"}},
			debezium,
			`1700000000123 {"id": {"$numberInt":"7"},"table": "t"} {"v": {"$numberInt":"2"}}`,
		},
		{
			"fields in a root",
			Options{TimeField: "/at", MetaField: "id", Root: "a.b", Fields: "c.d", Drop: []string{"c.d.x"}},
			`{"at": 1700000000, "a": {"b": {"id": 1, "z": 2, "c": {"d": {"x": 1, "y": 2}}}}}`, `1700000000000 {"$numberInt":"1"} {"y": {"$numberInt":"2"}}`,
		},
		{
			"what was dropped leaves no empty object",
			Options{TimeField: "t", MetaField: "id", Drop: []string{"a.b", "c", "d.e"}},
			`{"t": 1700000000, "id": 1, "a": {"b": {"": 1}}, "c": [1], "d": {"e": 1, "f": 2}, "v": {}}`,
			`1700000000000 {"$numberInt":"1"} {"d": {"f": {"$numberInt":"2"}},"v": {}}`,
		},
		{
			"a path goes through no array",
			Options{MetaFields: []string{"c"}, Drop: []string{"a.b"}},
			`{"a": [{"b": 1}], "c": 2}`,
			`1700000060000 {"c": {"$numberInt":"2"}} {"a": [{"b": {"$numberInt":"1"}}]}`,
		},
		{
			"dotted names nest first",
			Options{TimeField: "t", MetaFields: []string{"host=tags.host"}, Root: "p", Fields: "f", Drop: []string{"f.x.y"}},
			`{"p.t": 1700000000, "p.tags.host": "h", "p": {"f.x.y": 1, "f": {"x.z": 2}}}`,
			`1700000000000 {"host": "h"} {"x": {"z": {"$numberInt":"2"}}}`,
		},
	}
	for _, test := range tests {
		for _, format := range []Format{JSON, ExtJSON, BSON} {
			o := test.options
			o.Format, o.StoredTime, o.StoredMeta = format, "time", "meta"
			r := recordOf(test.event)
			if format == BSON {
				r.Value = inBSON(t, test.event)
			}
			if got := shown(t, decodeOne(t, newDecoder(t, o), r)); got != test.want {
				t.Errorf("%s in %s:\ngot  %s\nwant %s", test.name, format, got, test.want)
			}
		}
	}
}

// TestLettersNamePathsOfTheRecord checks that letters name paths as in the record, even if the settings are relative to the root.
func TestLettersNamePathsOfTheRecord(t *testing.T) {
	inRoot := Options{TimeField: "at", MetaFields: []string{"id", "tags"}, Root: "p.after", StoredTime: "time", StoredMeta: "meta"}
	withFields := Options{TimeField: "at", MetaField: "id", Root: "p", Fields: "f", StoredTime: "time", StoredMeta: "meta"}
	within := func(fields string) string { return `{"p": {"after": {` + fields + `}}}` }
	for _, test := range []struct {
		options      Options
		event        string
		reason       Reason
		path, detail string
	}{
		{inRoot, within(`"id": 1, "sent": 1700000000`), MissingTime, "p.after.at", "the event has no such field; EVENT_ROOT=p.after has sent: set EVENT_TIME_FIELD"},
		{inRoot, within(`"id": 1, "at": "noon"`), BadTime, "p.after.at", `"noon" is not a time`},
		{inRoot, within(`"id": 1, "at": 1`), TimeOutOfRange, "p.after.at", "EVENT_TIME_MIN"},
		{inRoot, within(`"at": 1700000000, "host": "a"`), MissingMeta, "", "the event has none of id, tags; EVENT_ROOT=p.after has host: set EVENT_META_FIELDS"},
		{inRoot, within(`"at": 1700000000, "tags": {"$x": 1}`), BadFieldName, "p.after.tags.$x", "dollar"},
		{inRoot, within(`"at": 1700000000, "id": "` + strings.Repeat("m", 8192) + `"`), BadMeta, "", "meta has 8206 bytes, more than 8192"},
		{inRoot, within(`"at": 1700000000, "id": 1, "v": {"": 1}`), BadFieldName, "p.after.v", "with an empty name"},
		{inRoot, within(`"at": 1700000000, "id": 1, "time": 3`), DuplicateField, "p.after.time", "MONGODB_TIME_FIELD"},
		{inRoot, within(`"at": 1700000000, "id": 1, "id": 3`), DuplicateField, "p.after.id", "more than once"},
		{inRoot, `{"p": {"after": {"id": 1}, "after": {}}}`, DuplicateField, "p.after", "more than once"},
		{inRoot, `{"p": {"before": {}}}`, NotObject, "p.after", "no object here, but EVENT_ROOT expects"},
		{inRoot, `{}`, NotObject, "p.after", "no object here, but EVENT_ROOT expects"},
		{inRoot, `{"p": 1}`, NotObject, "p.after", "no object here, but EVENT_ROOT expects"},
		{inRoot, `{"p": {"after": [{"id": 1}]}}`, NotObject, "p.after", "is not an object, but EVENT_ROOT expects one"},
		{inRoot, `{"p": {"after": "{}"}}`, NotObject, "p.after", `"{}" is not an object`},
		{withFields, `{"p": {"at": 1700000000, "id": 1}}`, NotObject, "p.f", "but EVENT_FIELDS expects the fields"},
		{withFields, `{"p": {"at": 1700000000, "id": 1, "f": null}}`, NotObject, "p.f", "null is not an object, but EVENT_FIELDS expects one"},
		{withFields, `{"p": {"at": 1700000000, "id": 1, "f": {"x": {"a": 1, "a": 2}}}}`, DuplicateField, "p.f.x.a", "more than once"},
		{withFields, `{"p": {"at": 1700000000, "id": 1, "id": 2, "f": {}}}`, DuplicateField, "p.id", "more than once"},
	} {
		err := refusal(t, newDecoder(t, test.options), recordOf(test.event))
		if err.Reason != test.reason || err.Path != test.path || !strings.Contains(err.Detail, test.detail) {
			t.Errorf("%.80s:\ngot  %v\nwant %s at %s: …%s…", test.event, err, test.reason, test.path, test.detail)
		}
	}
}

// TestNullRootIsSkipped covers a null root, such as Debezium's after of a deleted row.
func TestNullRootIsSkipped(t *testing.T) {
	d := newDecoder(t, Options{TimeField: "at", MetaField: "id", Root: "payload.after"})
	for _, event := range []string{
		`{"payload": {"before": {"id": 1}, "after": null, "op": "d"}}`, `{"schema": null, "payload": null}`,
	} {
		for range 2 {
			if results, err := d.Decode(recordOf(event)); err != nil || len(results) != 0 {
				t.Errorf("%s: %v, %v", event, results, err)
			}
		}
	}
	results, err := d.Decode(recordOf(`[{"payload": {"after": {"id": 1, "at": 1700000000}}}, {"payload": {"after": null}}, {"payload": {"after": {"id": 1, "at": 1700000000}}}]`))
	if err != nil || len(results) != 3 || results[0].Err != nil || results[2].Err != nil {
		t.Fatalf("%v, %v", results, err)
	}
	if bad := results[1].Err; bad == nil || bad.Reason != NotObject || bad.Path != "payload.after" || string(bad.Value) != `{"payload": {"after": null}}` {
		t.Errorf("in an array: %v", bad)
	}
}

func TestPathsDecodeWithoutAllocations(t *testing.T) {
	for name, r := range pathBenchmarks(t) {
		d := newDecoder(t, r.options)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := d.Decode(r.record); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// pathBenchmark is a record for which all paths are needed.
type pathBenchmark struct {
	options Options
	record  record.Record
}

func pathBenchmarks(t testing.TB) map[string]pathBenchmark {
	t.Helper()
	const telegraf = `{"fields":{"temp":21.375,"humidity":47,"pressure":1013.25,"battery":3.71,"rssi":-67},"name":"air",` +
		`"tags":{"site":"a1","host":"sensor-0042"},"timestamp":1700000000}`
	const debezium = `{"before":null,"after":{"host":"sensor-0042","temp":21.375,"humidity":47,"pressure":1013.25,"battery":3.71,"rssi":-67,"note":"x"},` +
		`"source":{"version":"2.7.0","connector":"postgresql","db":"plant","table":"air","lsn":24023128},"op":"c","ts_ms":1700000000123}`
	plain := func(value string) record.Record { return record.Record{Timestamp: recordTime, Value: []byte(value)} }
	return map[string]pathBenchmark{
		"telegraf": {Options{TimeField: "timestamp", MetaFields: []string{"name", "tags"}, Fields: "fields", StoredTime: "time", StoredMeta: "meta"}, plain(telegraf)},
		"debezium": {Options{
			TimeField: "/ts_ms", MetaFields: []string{"host", "/source.table"}, Root: "after", Drop: []string{"note"}, StoredTime: "time", StoredMeta: "meta",
		}, plain(debezium)},
		"framed": {Options{TimeField: "time", MetaField: "meta", Framing: Confluent, StoredTime: "time", StoredMeta: "meta"}, plain("\x00\x00\x00\x00\x07" + exampleEvent)},
	}
}

// TestNamesWithADollarSignCanBeTakenOut checks that a name that cannot be stored does no harm if the settings remove it. It
// covers any format and the quick reader.
func TestNamesWithADollarSignCanBeTakenOut(t *testing.T) {
	const event = `{"$schema": {"$id": 1}, "ts": 1700000000, "$type": "motor", "x": {"$$unit": "C", "v": 1}, "$meta": {"$id": 7}, "id": "d"}`
	options := Options{
		TimeField: "ts", MetaFields: []string{"kind=$type", "no=$meta.$id", "id"}, Drop: []string{"$schema", "x.$$unit"},
		StoredTime: "time", StoredMeta: "meta",
	}
	const want = `1700000000000 {"id": "d","kind": "motor","no": {"$numberInt":"7"}} {"x": {"v": {"$numberInt":"1"}}}`
	for _, format := range []Format{JSON, ExtJSON, BSON} {
		o, value := options, []byte(event)
		o.Format = format
		if format == BSON {
			value = inBSON(t, event)
		}
		d := newDecoder(t, o)
		for range 3 {
			if got := shown(t, decodeOne(t, d, recordOf(string(value)))); got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", format, got, want)
			}
		}
	}
	quick := options
	quick.MetaFields = []string{"kind=$type", "id"}
	const plain = `{"$schema": {"v": 1}, "ts": 1700000000, "$type": "motor", "x": {"v": 1, "$$unit": "C"}, "id": "d"}`
	for _, format := range []Format{JSON, ExtJSON, BSON} {
		o, value := quick, []byte(plain)
		o.Format = format
		if format == BSON {
			value = inBSON(t, plain)
		}
		d := newDecoder(t, o)
		decodeOne(t, d, recordOf(string(value)))
		if d.quick.missed != 0 || d.walker != nil && d.walker.lost != 0 {
			t.Errorf("%s: the event goes the longer way", format)
		}
	}
	enveloped := newDecoder(t, Options{Root: "p", TimeField: "ts", MetaFrom: MetaFromNone})
	decodeOne(t, enveloped, recordOf(`{"$schema": 1, "p": {"ts": 1700000000}}`)) // names outside of the root may be anything
	if enveloped.quick.missed != 0 {
		t.Error("an envelope with a dollar sign goes the longer way")
	}
}

// TestLettersSayWhatToLeaveOut checks the path for EVENT_DROP that stores the rest of an event.
func TestLettersSayWhatToLeaveOut(t *testing.T) {
	with := func(change func(*Options)) Options {
		o := Options{TimeField: "ts", MetaFrom: MetaFromNone, StoredTime: "time", StoredMeta: "meta"}
		change(&o)
		return o
	}
	plain := with(func(*Options) {})
	inFields, inRoot := with(func(o *Options) { o.Fields = "f" }), with(func(o *Options) { o.Root = "p" })
	extended := with(func(o *Options) { o.Format = ExtJSON })
	const isExtended = "or set EVENT_FORMAT=extjson if this is Extended JSON"
	for _, test := range []struct {
		options       Options
		value, reason string
		says, not     string
	}{
		{plain, `{"ts": 1700000000, "$schema": 1}`, "bad_field_name at $schema", "leave it out with EVENT_DROP='$schema', rename the field, " + isExtended, ""},
		{extended, `{"ts": 1700000000, "$schema": 1}`, "bad_field_name at $schema", "leave it out with EVENT_DROP='$schema', rename the field", isExtended},
		{plain, `{"ts": 1700000000, "x": {"$numberDouble": "NaN"}}`, "bad_field_name at x.$numberDouble", "this is Extended JSON: set EVENT_FORMAT=extjson", "EVENT_DROP"},
		{plain, `{"ts": 1700000000, "a": {"$b": 1}}`, "bad_field_name at a.$b", "EVENT_DROP='a.$b'", ""},
		{inFields, `{"ts": 1700000000, "f": {"a": {"$b": 1}}}`, "bad_field_name at f.a.$b", "EVENT_DROP='f.a.$b'", ""},
		{inRoot, `{"p": {"ts": 1700000000, "$b": 1}}`, "bad_field_name at p.$b", "EVENT_DROP='$b'", ""},
		{plain, `{"ts": 1700000000, "a": [{"$b": 1}]}`, "bad_field_name at a.0.$b", "rename the field", "EVENT_DROP"},
		{plain, `{"ts": 1700000000, "$a,b": 1}`, "bad_field_name at $a,b", "rename the field", "EVENT_DROP"},
		{with(func(o *Options) { o.Drop = []string{"$a.b"} }), `{"ts": 1700000000, "$a": {"b": 1, "c": 2}}`, "bad_field_name at $a", "EVENT_DROP='$a'", ""},
		{with(func(o *Options) { o.Drop = []string{"$a.b"} }), `{"ts": 1700000000, "$a": 1}`, "bad_field_name at $a", "EVENT_DROP='$a'", ""},
		{plain, `{"ts": 1700000000, "time": 1}`, "duplicate_field at time", "its time under this name: leave the field out with EVENT_DROP=time, rename the field, or choose another MONGODB_TIME_FIELD", "MONGODB_META_FIELD"},
		{plain, `{"ts": 1700000000, "meta": 1}`, "duplicate_field at meta", "its meta under this name: leave the field out with EVENT_DROP=meta, rename the field, or choose another MONGODB_META_FIELD", ""},
		{inFields, `{"ts": 1700000000, "f": {"time": 1}}`, "duplicate_field at f.time", "EVENT_DROP=f.time", ""},
		{inRoot, `{"p": {"ts": 1700000000, "time": 1}}`, "duplicate_field at p.time", "EVENT_DROP=time", ""},
	} {
		err := refusal(t, newDecoder(t, test.options), recordOf(test.value))
		if !strings.HasPrefix(err.Error(), test.reason+": ") || !strings.Contains(err.Detail, test.says) || test.not != "" && strings.Contains(err.Detail, test.not) {
			t.Errorf("%s: %v, want %s: …%s…, and not %q", test.value, err, test.reason, test.says, test.not)
		}
		_, advice, found := strings.Cut(err.Detail, "EVENT_DROP=")
		if !found {
			continue
		}
		path, _, _ := strings.Cut(advice, ",")
		o := test.options
		o.Drop = append([]string{}, strings.Trim(path, "'"))
		decodeOne(t, newDecoder(t, o), recordOf(test.value))
	}
}
