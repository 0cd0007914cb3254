package measurement

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/record"
)

// staged returns options with stages, with the device as meta.
func staged(change func(*Options)) Options {
	o := Options{TimeField: "ts", MetaField: "device"}
	change(&o)
	return o
}

// outcomes returns the results of a record's events, as measurements or as the reason and path of their errors, each with its
// part.
func outcomes(t *testing.T, o Options, value string) (list []string) {
	t.Helper()
	d := newDecoder(t, o)
	results, err := d.Decode(recordOf(value))
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range results {
		text := strconv.Itoa(int(r.Measurement.Position.Part)) + ": "
		if r.Err != nil {
			text += string(r.Err.Reason) + " at " + r.Err.Path
		} else {
			text += shown(t, r.Measurement)
		}
		list = append(list, text)
	}
	if d.Skipped() > 0 {
		list = append(list, "skipped: "+strconv.Itoa(d.Skipped()))
	}
	return list
}

// firstError returns the error of a record or of its first event.
func firstError(t *testing.T, o Options, value string) error {
	t.Helper()
	results, err := newDecoder(t, o).Decode(recordOf(value))
	if err == nil && (len(results) == 0 || results[0].Err == nil) {
		t.Fatalf("decoding %s: no error", value)
	}
	if err == nil {
		err = results[0].Err
	}
	return err
}

func checkOutcomes(t *testing.T, o Options, value string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, outcomes(t, o, value)); diff != "" {
		t.Errorf("%s\n-want +got:\n%s", value, diff)
	}
}

func TestListIsTakenApart(t *testing.T) {
	lists := func(paths ...string) Options { return staged(func(o *Options) { o.List = paths }) }
	checkOutcomes(t, lists("readings"), `{"device":"d-7","site":"n","readings":[{"ts":1700000000,"v":1},{"ts":1700000001,"v":2,"site":"s"}],"fw":3}`,
		`0: 1700000000000 "d-7" {"site": "n","fw": {"$numberInt":"3"},"v": {"$numberInt":"1"}}`,
		`1: 1700000001000 "d-7" {"fw": {"$numberInt":"3"},"v": {"$numberInt":"2"},"site": "s"}`)
	// The time of the envelope is inherited by an element without one.
	checkOutcomes(t, lists("readings"), `{"device":"d","ts":1700000009,"readings":[{"v":1},{"ts":1700000001,"v":2}]}`,
		`0: 1700000009000 "d" {"v": {"$numberInt":"1"}}`, `1: 1700000001000 "d" {"v": {"$numberInt":"2"}}`)
	// An element may have a member of the list's name.
	nested := lists("values")
	nested.Fields = "values"
	checkOutcomes(t, nested, `{"device":"d","values":[{"ts":1700000000,"values":{"t":21.5}}]}`, `0: 1700000000000 "d" {"t": {"$numberDouble":"21.5"}}`)
	// A list of one element may lack its brackets.
	checkOutcomes(t, lists("r"), `{"device":"d","r":{"ts":1700000000,"v":1}}`, `0: 1700000000000 "d" {"v": {"$numberInt":"1"}}`)
	// Several lists follow in the order of the setting. A missing or null list has no elements.
	checkOutcomes(t, lists("b", "a", "c", "d"), `{"device":"d","d":null,"a":[{"ts":1700000000,"x":1}],"b":[{"ts":1700000001,"y":2}]}`,
		`0: 1700000001000 "d" {"y": {"$numberInt":"2"}}`, `1: 1700000000000 "d" {"x": {"$numberInt":"1"}}`)
	// A nested list is removed together with its parent if that has no other field.
	checkOutcomes(t, lists("a.r", "b.r"), `{"device":"d","a":{"r":[{"ts":1700000000,"v":1}]},"b":{"u":"C","r":[]}}`,
		`0: 1700000000000 "d" {"b": {"u": "C"},"v": {"$numberInt":"1"}}`)
	checkOutcomes(t, lists("r"), `{"device":"d","r":[]}`, "skipped: 1")
	if got := outcomes(t, lists("a.r"), `{"device":"d","a":{"r":[{"ts":1700000000}],"r":[{"ts":1700000001}]}}`); len(got) != 1 || !strings.HasPrefix(got[0], "duplicate_field at a.r: ") {
		t.Errorf("a list that comes twice: %s", got)
	}
	checkOutcomes(t, lists("r"), `{"device":"d","r":null}`, "skipped: 1")
}

func TestListInRoot(t *testing.T) {
	inside := Options{TimeField: "ts", MetaField: "device", Root: "p.q", List: []string{"r"}}
	checkOutcomes(t, inside, `{"schema":1,"p":{"q":{"device":"d","r":[{"ts":1700000000,"v":1}]}}}`, `0: 1700000000000 "d" {"v": {"$numberInt":"1"}}`)
	checkOutcomes(t, inside, `{"schema":1,"p":{"q":{"r":[{"ts":1700000000,"device":"d"}]}}}`, `0: 1700000000000 "d" {}`)
	checkOutcomes(t, inside, `{"schema":1,"p":{"q":null}}`)
	checkOutcomes(t, inside, `{"schema":1,"p":null}`)
	outside := Options{TimeField: "ts", MetaField: "/device", Root: "data", List: []string{"/r"}}
	checkOutcomes(t, outside, `{"device":"d","r":[{"data":{"ts":1700000000,"v":1}},{"data":{"ts":1700000001}}]}`,
		`0: 1700000000000 "d" {"v": {"$numberInt":"1"}}`, `1: 1700000001000 "d" {}`)
}

// TestPartsOfListsGoOn checks that the events of arrays, of several texts and of lists share one numbering of parts, in their
// order.
func TestPartsOfListsGoOn(t *testing.T) {
	o := staged(func(o *Options) { o.List = []string{"r"} })
	const two = `{"device":"d","r":[{"ts":1700000000},{"ts":1700000001}]}`
	want := []string{
		`0: 1700000000000 "d" {}`, `1: 1700000001000 "d" {}`, `2: missing_field at r`, `3: not_object at `, `4: 1700000000000 "d" {}`, `5: 1700000001000 "d" {}`,
		"skipped: 1",
	}
	checkOutcomes(t, o, `[`+two+`,{"r":[]},{"x":1},3,`+two+`]`, want...)
	checkOutcomes(t, o, two+"\n"+`{"r":[]}`+"\n"+`[{"x":1},3]`+two, want...)
}

func TestSeveralTextsAreSeveralEvents(t *testing.T) {
	o := staged(func(*Options) {})
	const first, second = `{"device":"d","ts":1700000000}`, `{"device":"e","ts":1700000001}`
	want := []string{`0: 1700000000000 "d" {}`, `1: 1700000001000 "e" {}`}
	for _, between := range []string{"\n", "", "\r\n\r\n", " "} {
		checkOutcomes(t, o, first+between+second+"\n", want...)
	}
	checkOutcomes(t, o, "["+first+"]\n["+second+"]", want...)
	checkOutcomes(t, o, "[]"+first+"[]"+second, want...)
	checkOutcomes(t, o, first+`{"device":"e"}`+second, want[0], `1: missing_time at ts`, `2: 1700000001000 "e" {}`)
	o.Root = "p"
	checkOutcomes(t, o, `{"p":null}`+`{"p":`+first+`}`, `0: not_object at p`, `1: 1700000000000 "d" {}`)
}

func TestListsOfListsAreRefused(t *testing.T) {
	for _, test := range []struct {
		lists       []string
		value, says string
	}{
		{[]string{"a.b"}, `{"a":[{"b":[{"ts":1}]}]}`, "not_object at a: the value is a list, and EVENT_LIST names a list inside its elements: a list inside a list cannot be split"},
		{[]string{"a"}, `{"a":3}`, "not_object at a: 3 is not a list, but EVENT_LIST=a expects one"},
		{[]string{"a", "b"}, `{"c":3}`, "missing_field at a: the event has no list, but EVENT_LIST=a,b expects one"},
	} {
		d := newDecoder(t, staged(func(o *Options) { o.List = test.lists }))
		if err := refusal(t, d, recordOf(test.value)); !strings.Contains(err.Error(), test.says) || err.Part != record.WholeRecord {
			t.Errorf("%s: %v, part %d", test.value, err, err.Part)
		}
	}
	d := newDecoder(t, staged(func(o *Options) { o.List = []string{"a"} }))
	results, err := d.Decode(recordOf(`{"a":[[{"ts":1}],3]}`))
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for i, says := range []string{"not_object at a.0: this element of EVENT_LIST=a is itself a list, but a list inside a list cannot be split", "not_object at a.1: 3 is not an object"} {
		if got := results[i].Err.Error(); !strings.Contains(got, says) {
			t.Errorf("%s, want %s", got, says)
		}
	}
}

// TestLetterOfListElementGoesBackAlone checks that the letter is the event with only this element, and decodes to the same.
func TestLetterOfListElementGoesBackAlone(t *testing.T) {
	o := staged(func(o *Options) { o.List, o.Parse = []string{"a", "b.r"}, []string{"b"} })
	const good = `{"ts":1700000000,"big":9007199254740993,"d":20.0,"e":1e20}`
	value := `{"device":"d","x":{"n.m":1},"a":[` + good + `,{"v":1}],"b":"{\"r\":[{\"w\":2},{\"ts\":1700000001}]}"}`
	for _, format := range []Format{JSON, ExtJSON} {
		o.Format = format
		d := newDecoder(t, o)
		r := recordOf(value)
		results, err := d.Decode(r)
		if err != nil || len(results) != 4 || results[1].Err == nil || results[2].Err == nil {
			t.Fatalf("%v, %v", results, err)
		}
		whole := outcomes(t, o, value)
		for part := range int32(4) {
			element, ok := d.Element(r, part)
			if !ok || !json.Valid(element) {
				t.Fatalf("element %d: %s, %v", part, element, ok)
			}
			alone := outcomes(t, o, string(element))
			if want := "0" + strings.TrimPrefix(whole[part], strconv.Itoa(int(part))); len(alone) != 1 || alone[0] != want {
				t.Errorf("%s: element %d is %s, which becomes\n%s, want\n%s", format, part, element, alone, want)
			}
		}
		if element, ok := d.Element(r, 4); ok {
			t.Errorf("element 4 is %s", element)
		}
	}
	o.Format = JSON
	if element, _ := newDecoder(t, o).Element(recordOf(value), 1); string(element) != `{"device":"d","x":{"n":{"m":1}},"a":[{"v":1}]}` {
		t.Errorf("element 1 is %s", element)
	}
}

// TestWhatListsInheritIsBounded checks that a large envelope of many elements is refused before it is repeated.
func TestWhatListsInheritIsBounded(t *testing.T) {
	o := staged(func(o *Options) { o.List, o.MaxBytes = []string{"a"}, 1<<20 })
	d := newDecoder(t, o)
	value := `{"ts":1700000000,"device":"d","x":"` + strings.Repeat("x", 500_000) + `","a":[{}` + strings.Repeat(",{}", 100_000) + `]}`
	if err := refusal(t, d, recordOf(value)); err.Reason != TooLarge || !strings.Contains(err.Detail, "each element gets a copy of the fields outside the list") {
		t.Error(err)
	}
	// Letters that repeat a large envelope are bounded as well.
	value = `{"device":"d","x":"` + strings.Repeat("x", 900_000) + `","a":[{}` + strings.Repeat(",{}", 7) + `]}`
	d = newDecoder(t, staged(func(o *Options) { o.List, o.MaxBytes = []string{"a"}, 1<<20 }))
	if results, err := d.Decode(recordOf(value)); err != nil || len(results) != 8 {
		t.Errorf("%d results, %v", len(results), err)
	}
	value = `{"device":"d","x":"` + strings.Repeat("x", 100_000) + `","a":[{}` + strings.Repeat(",{}", 120) + `]}`
	d = newDecoder(t, staged(func(o *Options) { o.List, o.MaxBytes = []string{"a"}, 16<<20 }))
	if err := refusal(t, d, recordOf(value)); err.Reason != BadElements || !strings.Contains(err.Detail, "Their dead letters (each has the fields outside the list) would take more than 8 MiB") {
		t.Error(err)
	}
}

// TestBuffersOfLargeListsAreDropped checks that the memory of one large record is freed.
func TestBuffersOfLargeListsAreDropped(t *testing.T) {
	d := newDecoder(t, staged(func(o *Options) { o.List, o.Parse, o.MaxBytes = []string{"a"}, []string{"a"}, 8<<20 }))
	large := `{"device":"d","ts":1700000000,"a":[{"x":"` + strings.Repeat("x", 1_000_000) + `"}` + strings.Repeat(`,{"v":1}`, 200_000) + `]}`
	if results, err := d.Decode(recordOf(large)); err != nil || len(results) != 200_001 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if _, err := d.Decode(recordOf(`{"device":"d","ts":1700000000,"a":[{}]}`)); err != nil {
		t.Fatal(err)
	}
	if kept := d.bufferBytes(); kept > keptBytes {
		t.Errorf("%d bytes of buffers are kept", kept)
	}
}

func TestTextIsParsed(t *testing.T) {
	parse := func(paths ...string) Options { return staged(func(o *Options) { o.Parse = paths }) }
	const want = `0: 1700000000000 "d" {"p": {"v": {"$numberInt":"1"}}}`
	for _, p := range []string{`"{\"v\":1}"`, `" {\"v\":1}\n"`, `"eyJ2IjoxfQ=="`, `"eyJ2IjoxfQ"`, `{"v":1}`, `"\ufeff{\"v\":1}"`, `"77u_eyJ2IjoxfQ"`} {
		checkOutcomes(t, parse("p"), `{"device":"d","ts":1700000000,"p":`+p+`}`, want)
	}
	checkOutcomes(t, parse("p"), `{"device":"d","ts":1700000000,"p":null}`, `0: 1700000000000 "d" {"p": null}`)
	checkOutcomes(t, parse("p"), `{"device":"d","ts":1700000000}`, `0: 1700000000000 "d" {}`)
	// A text in a text, names with dots in it, and paths of time and meta that lead into it.
	deep := Options{TimeField: "p.q.at", MetaField: "p.id", Parse: []string{"p", "p.q"}}
	checkOutcomes(t, deep, `{"p":"{\"id\":\"d\",\"q\":\"{\\\"at\\\":1700000000,\\\"a.b\\\":2}\"}"}`, `0: 1700000000000 "d" {"p": {"q": {"a": {"b": {"$numberInt":"2"}}}}}`)
	// A list in a text, and a text in each of its elements.
	both := staged(func(o *Options) { o.List, o.Parse = []string{"body"}, []string{"body", "data"} })
	checkOutcomes(t, both, `{"device":"d","body":"[{\"ts\":1700000000,\"data\":\"{\\\"v.w\\\":1}\"}]"}`, `0: 1700000000000 "d" {"data": {"v": {"w": {"$numberInt":"1"}}}}`)
	for text, says := range map[string]string{
		`"x"`:             `not_json at p: "x" holds no JSON object or array, neither plain nor in base64, but EVENT_PARSE requires one`,
		`"{\"v\":1"`:      `not_json at p: the text ends at byte 6`,
		`"{} {}"`:         `not_json at p: the text holds more than one JSON value`,
		`"aGVsbG8="`:      `holds no JSON object or array`,
		`""`:              `holds no JSON object or array`,
		`"{\"v\":1e999}"`: `bad_number at p`,
	} {
		if got := outcomes(t, parse("p"), `{"device":"d","ts":1700000000,"p":`+text+`}`); len(got) != 1 || !strings.Contains(got[0], says) {
			t.Errorf("%s: %s, want %s", text, got, says)
		}
	}
}

// TestPartOfMetaInAnArrayIsALetter checks that no two series become one because a path cannot reach what tells them apart.
func TestPartOfMetaInAnArrayIsALetter(t *testing.T) {
	o := Options{TimeField: "ts", MetaFields: []string{"device", "r.s"}}
	checkOutcomes(t, o, `{"device":"d","ts":1700000000,"r":{"s":2},"v":1}`, `0: 1700000000000 {"device": "d","s": {"$numberInt":"2"}} {"v": {"$numberInt":"1"}}`)
	checkOutcomes(t, o, `{"device":"d","ts":1700000000,"r":null,"v":1}`, `0: 1700000000000 {"device": "d"} {"r": null,"v": {"$numberInt":"1"}}`)
	// PHP writes an empty object as an array.
	checkOutcomes(t, o, `{"device":"d","ts":1700000000,"r":[],"v":1}`, `0: 1700000000000 {"device": "d"} {"r": [],"v": {"$numberInt":"1"}}`)
	indexed := newDecoder(t, Options{TimeField: "ts", MetaFields: []string{"device", "r[0].s"}})
	for range 8 {
		if err := refusal(t, indexed, recordOf(`{"device":"d","ts":1700000000,"r":[{"s":2}]}`)); !strings.Contains(err.Error(), "r is an array") {
			t.Error(err)
		}
	}
	const says = "bad_meta at r.s: r is an array, and paths do not lead into arrays"
	for _, fields := range []string{"", "f"} {
		o.Fields = fields
		for _, format := range []Format{JSON, ExtJSON, BSON} {
			o.Format, o.StoredTime, o.StoredMeta = format, "time", "meta"
			d := newDecoder(t, o)
			of := func(part string) record.Record {
				r := recordOf(`{"device":"d","ts":1700000000,"r":` + part + `,"f":{"v":1}}`)
				if format == BSON {
					r.Value = inBSON(t, string(r.Value))
				}
				return r
			}
			for range 8 { // the faster readers know the event by then
				decodeOne(t, d, of(`{"s":2}`))
			}
			if err := refusal(t, d, of(`[{"s":2}]`)); !strings.Contains(err.Error(), says) {
				t.Errorf("%s, fields %q: %v", format, fields, err)
			}
		}
	}
	avro := avroOptions(readingSchema(`{"name":"r","type":{"type":"array","items":{"type":"record","name":"E","fields":[{"name":"s","type":"string"}]}}}`))
	proto := protoOptions(t, readingProto("repeated Element r = 3;", "message Element { string s = 1; }"))
	for value, o := range map[string]Options{readingOfAvro + "\x02\x02a\x00": avro, readingOfProto + string(wireBytes(3, string(wireBytes(1, "a")))): proto} {
		o.MetaField, o.MetaFields = "", []string{"meta", "r.s"}
		for range 2 {
			if err := refusal(t, newDecoder(t, o), record.Record{Timestamp: recordTime, Value: []byte(value)}); !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", o.Format, err)
			}
		}
	}
	inList := Options{TimeField: "ts", MetaFields: []string{"device", "r.s"}, List: []string{"r"}}
	if err := firstError(t, inList, `{"device":"d","ts":1700000000,"r":[{"s":2,"v":1}]}`); !strings.Contains(err.Error(), "begin the path in the element, as in s)") {
		t.Error(err)
	}
	// The element may have an object with the name of its list.
	checkOutcomes(t, inList, `{"device":"d","ts":1700000000,"r":[{"r":{"s":2},"v":1}]}`, `0: 1700000000000 {"device": "d","s": {"$numberInt":"2"}} {"v": {"$numberInt":"1"}}`)
}

// TestElementWithTheNameOfItsList covers lists whose elements have their fields in an object with the name of the list.
func TestElementWithTheNameOfItsList(t *testing.T) {
	o := staged(func(o *Options) {
		o.List, o.Fields, o.Drop, o.Skip = []string{"values"}, "values", []string{"values.x"}, []string{"Temp(C)=3"}
	})
	checkOutcomes(t, o, `{"device":"d","values":[{"ts":1700000000,"values":{"t":1,"x":2}}]}`, `0: 1700000000000 "d" {"t": {"$numberInt":"1"}}`)
	if err := firstError(t, o, `{"device":"d","values":[{"ts":1700000000,"t":1}]}`); strings.Contains(err.Error(), "EVENT_SKIP") || !strings.Contains(err.Error(), "the event has no object here") {
		t.Error(err)
	}
	o = staged(func(o *Options) { o.Fields = "a.b" })
	if err := firstError(t, o, `{"device":"d","ts":1700000000,"a":[{"b":{}}]}`); !strings.Contains(err.Error(), "a is an array") || strings.Contains(err.Error(), "EVENT_SKIP") {
		t.Error(err)
	}
}

func TestFieldsAreRenamed(t *testing.T) {
	o := Options{TimeField: "at", MetaField: "id", Rename: []string{"ts=at", "device=id", "air.temp_c=celsius", "gone=x"}, Drop: []string{"air.celsius2"}}
	checkOutcomes(t, o, `{"device":"d","ts":1700000000,"air":{"temp_c":21.5,"celsius2":1},"x":2}`, `0: 1700000000000 "d" {"air": {"celsius": {"$numberDouble":"21.5"}},"x": {"$numberInt":"2"}}`)
	checkOutcomes(t, o, `{"id":"d","at":1700000000,"air":{}}`, `0: 1700000000000 "d" {"air": {}}`)
	if got := outcomes(t, o, `{"id":"d","at":1700000000,"x":1,"gone":2}`); len(got) != 1 || !strings.Contains(got[0], "duplicate_field at x") {
		t.Errorf("%s", got)
	}
	// Null is as if it were not there, as in an Avro record with both names.
	for value, want := range map[string]string{`"x":null,"gone":2`: "2", `"gone":2,"x":null`: "2", `"x":1,"gone":null`: "1", `"gone":null,"x":1`: "1"} {
		checkOutcomes(t, o, `{"id":"d","at":1700000000,`+value+`}`, `0: 1700000000000 "d" {"x": {"$numberInt":"`+want+`"}}`)
	}
	checkOutcomes(t, o, `{"id":"d","at":1700000000,"x":null,"gone":null}`, `0: 1700000000000 "d" {"x": null}`)
	both := Options{TimeField: "ts", MetaField: "d", Rename: []string{"a=c", "b=c"}}
	for value, want := range map[string]string{`"a":null,"b":2`: "2", `"b":2,"a":null`: "2", `"b":null,"a":2,"c":null`: "2"} {
		checkOutcomes(t, both, `{"d":"d","ts":1700000000,`+value+`}`, `0: 1700000000000 "d" {"c": {"$numberInt":"`+want+`"}}`)
	}
	if got := outcomes(t, both, `{"d":"d","ts":1700000000,"":null,"v":1}`); len(got) != 1 || !strings.Contains(got[0], "bad_field_name") {
		t.Errorf("%s", got)
	}
	// Many nulls take no longer than their number, also if they are duplicates.
	for _, many := range []string{`"c":null,`, `"x%d":null,`} {
		var text strings.Builder
		for i := range 60_000 {
			text.WriteString(strings.Replace(many, "%d", strconv.Itoa(i), 1))
		}
		began := time.Now()
		outcomes(t, both, `{"d":"d","ts":1700000000,`+text.String()+`"a":1}`)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("60,000 of %s take %s", many, took)
		}
	}
	if got := outcomes(t, both, `{"d":"d","ts":1700000000,"v":null,"v":1}`); len(got) != 1 || !strings.Contains(got[0], "duplicate_field at v") {
		t.Errorf("%s", got)
	}
	tall := Options{TimeField: "ts", MetaField: "d", FieldName: "n", FieldValue: "v", Rename: []string{"temp_c=celsius"}}
	checkOutcomes(t, tall, `{"d":"d","ts":1700000000,"n":"temp_c","v":1}`, `0: 1700000000000 "d" {"celsius": {"$numberInt":"1"}}`)
}

func TestStagesThatCannotBeAreRefused(t *testing.T) {
	for _, test := range []struct {
		change  func(*Options)
		setting string
		says    string
	}{
		{func(o *Options) { o.List = []string{"a[]"} }, settingList, "leads into an array"},
		{func(o *Options) { o.List = []string{""} }, settingList, "not a dotted path"},
		{func(o *Options) { o.List = []string{"a", "a"} }, settingList, "already named"},
		{func(o *Options) { o.List = []string{"a", "a.b"} }, settingList, "a list inside a list cannot be split"},
		{func(o *Options) { o.List, o.Root = []string{"/a"}, "a.b" }, settingList, "contains EVENT_ROOT=a.b"},
		{func(o *Options) { o.Parse = []string{"$.a"} }, settingParse, "JSONPath"},
		{func(o *Options) { o.Skip = []string{"=x"} }, settingSkip, "is not a condition"},
		{func(o *Options) { o.Skip = []string{"!!x"} }, settingSkip, "is not a condition"},
		{func(o *Options) { o.Skip = []string{"a==x"} }, settingSkip, "write path=value"},
		{func(o *Options) { o.Skip = []string{"a>=1"} }, settingSkip, "write path=value"},
		{func(o *Options) { o.Skip = []string{`a="x"`} }, settingSkip, "in quotes"},
		{func(o *Options) { o.Skip = []string{"a!=null"} }, settingSkip, "no value"},
		{func(o *Options) { o.List, o.Skip = []string{"r"}, []string{"!r.x"} }, settingSkip, "leads nowhere (it leads through the list r"},
		{func(o *Options) { o.List, o.Parse = []string{"r"}, []string{"r.p"} }, settingParse, "as in p"},
		{func(o *Options) { o.List, o.Drop = []string{"r"}, []string{"r.p.q"} }, settingDrop, "as in p.q"},
		{func(o *Options) { o.List, o.Rename = []string{"r"}, []string{"r.p=q"} }, settingRename, "as in p"},
		{func(o *Options) { o.Root, o.List, o.Drop = "e", []string{"r"}, []string{"r.n"} }, settingDrop, "through the list e.r of EVENT_LIST, whose elements are events of their own: begin the path in the element, as in n)"},
		{func(o *Options) { o.Root, o.List, o.Skip = "e", []string{"/r"}, []string{"/r.n=1"} }, settingSkip, "as in /n)"},
		{func(o *Options) { o.Skip = []string{"a=~b"} }, settingSkip, "write path=value"},
		{func(o *Options) { o.List, o.Fields, o.Drop = []string{"r"}, "f", []string{"f.x", "r.y"} }, settingDrop, "leads nowhere"},
		{func(o *Options) { o.FieldName, o.FieldValue = "n", "v|w|v" }, settingValue, "already named"},
		{func(o *Options) { o.MetaFields = []string{"site", "dev|device"} }, settingMetas, "has a |"},
		{func(o *Options) { o.Drop = []string{"v|w"} }, settingDrop, "has a |"},
		{func(o *Options) { o.Skip = []string{"a..b"} }, settingSkip, "not a dotted path"},
		{func(o *Options) { o.FieldName = "n" }, settingName, "EVENT_FIELD_VALUE is not set"},
		{func(o *Options) { o.FieldValue = "v" }, settingValue, "EVENT_FIELD_NAME is not set"},
		{func(o *Options) { o.FieldName, o.FieldValue = "n", "v||w" }, settingValue, "not a dotted path"},
		{func(o *Options) { o.FieldName, o.FieldValue = "n", "n.v" }, settingValue, "lies inside"},
		{func(o *Options) { o.Rename = []string{"a"} }, settingRename, "renames nothing"},
		{func(o *Options) { o.Rename = []string{"a=b.c"} }, settingRename, "write only its new name"},
		{func(o *Options) { o.Rename = []string{"a=$b"} }, settingRename, "begins with $"},
		{func(o *Options) { o.Rename = []string{"a=b", "a=c"} }, settingRename, "already named"},
		{func(o *Options) { o.Rename = []string{"a=b", "a.x=c"} }, settingRename, "lies inside"},
	} {
		o := staged(test.change)
		wrong := o.CheckPaths()
		if len(wrong) != 1 || wrong[0].Setting != test.setting || !strings.Contains(wrong[0].Text, test.says) {
			t.Errorf("%v, want %s: %s", wrong, test.setting, test.says)
		}
		if _, err := New(o); err == nil {
			t.Errorf("%v is no error of New", wrong)
		}
	}
}
