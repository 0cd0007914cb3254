package measurement

import (
	"encoding/json"
	"slices"
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

func TestEventsAreSkipped(t *testing.T) {
	skip := func(conditions ...string) Options { return staged(func(o *Options) { o.Skip = conditions }) }
	const event = `{"device":"d","ts":1700000000,"type":"join","n":3,"f":2.5,"on":true,"a":{"b":null}}`
	for condition, isSkipped := range map[string]bool{
		"type": true, "!type": false, "type=join": true, "type=up": false, "type!=up": true, "type!=join": false, "n=3": true, "n=3.0": true, "f=2.50": true,
		"on=true": true, "on=false": false, "x": false, "!x": true, "x=1": false, "x!=1": true, "a.b": false, "!a.b": true, "a": true, "a.b.c": false, "type = join": true,
	} {
		got := outcomes(t, skip("nothing", condition), event)
		if want := "skipped: 1"; (len(got) == 1 && got[0] == want) != isSkipped {
			t.Errorf("%s: %s", condition, got)
		}
	}
	// A skipped event keeps its position, so that the positions of others do not change.
	checkOutcomes(t, skip("x"), `[{"x":1},{"device":"d","ts":1700000000}]`, `1: 1700000000000 "d" {}`, "skipped: 1")
	lists := staged(func(o *Options) { o.List, o.Skip = []string{"r"}, []string{"!r", "v=0"} })
	checkOutcomes(t, lists, `{"device":"d"}`, "skipped: 1")
	checkOutcomes(t, lists, `{"device":"d","ts":1700000000,"r":[{"v":0},{"v":1}]}`, `1: 1700000000000 "d" {"v": {"$numberInt":"1"}}`, "skipped: 1")
	// The fields of the event itself decide whether an event without the list is skipped.
	checkOutcomes(t, staged(func(o *Options) { o.List, o.Skip = []string{"r"}, []string{"type=status"} }), `{"device":"d","type":"status"}`, "skipped: 1")
	root := Options{TimeField: "/ts", MetaField: "/device", Root: "p", Skip: []string{"/type!=up", "v=9"}}
	checkOutcomes(t, root, `{"device":"d","ts":1700000000,"type":"up","p":{"v":1}}`, `0: 1700000000000 "d" {"v": {"$numberInt":"1"}}`)
	checkOutcomes(t, root, `{"device":"d","ts":1700000000,"type":"join"}`, "skipped: 1")
	checkOutcomes(t, root, `{"device":"d","ts":1700000000,"type":"up","p":{"v":9}}`, "skipped: 1")
}

func TestValueIsNamedByAnotherField(t *testing.T) {
	tall := func(name, value string) Options {
		return staged(func(o *Options) { o.FieldName, o.FieldValue = name, value })
	}
	o := tall("name", "value")
	checkOutcomes(t, o, `{"device":"d","name":"temp","value":21,"ts":1700000000,"unit":"C"}`, `0: 1700000000000 "d" {"temp": {"$numberInt":"21"},"unit": "C"}`)
	checkOutcomes(t, o, `{"device":"d","name":"air.temp","value":{"x":1},"ts":1700000000}`, `0: 1700000000000 "d" {"air": {"temp": {"x": {"$numberInt":"1"}}}}`)
	checkOutcomes(t, o, `{"device":"d","name":"temp","value":null,"ts":1700000000}`, `0: 1700000000000 "d" {"temp": null}`)
	several := tall("n", "v|vs|vb")
	checkOutcomes(t, several, `{"device":"d","n":"door","vb":true,"ts":1700000000}`, `0: 1700000000000 "d" {"door": true}`)
	checkOutcomes(t, several, `{"device":"d","n":"door","vs":"x","vb":true,"ts":1700000000}`, `0: 1700000000000 "d" {"door": "x","vb": true}`)
	// Null is as if it were not there, as in an Avro record with all these fields.
	checkOutcomes(t, several, `{"device":"d","n":"door","v":null,"vs":"open","vb":null,"ts":1700000000}`, `0: 1700000000000 "d" {"door": "open"}`)
	checkOutcomes(t, several, `{"device":"d","n":"door","v":1,"vs":null,"ts":1700000000}`, `0: 1700000000000 "d" {"door": {"$numberInt":"1"}}`)
	checkOutcomes(t, several, `{"device":"d","n":"door","v":null,"vs":null,"ts":1700000000}`, `0: 1700000000000 "d" {"door": null}`)
	checkOutcomes(t, several, `{"device":"d","n":"vb","vs":"x","vb":null,"ts":1700000000}`, `0: 1700000000000 "d" {"vb": "x"}`)
	inObject := tall("m.name", "m.value")
	inObject.Fields = "m"
	checkOutcomes(t, inObject, `{"device":"d","m":{"name":"temp","value":21},"ts":1700000000}`, `0: 1700000000000 "d" {"temp": {"$numberInt":"21"}}`)
	list := staged(func(o *Options) { o.FieldName, o.FieldValue, o.List = "n", "v", []string{"e"} })
	checkOutcomes(t, list, `{"device":"d","ts":1700000000,"e":[{"n":"a","v":1},{"n":"b","v":2}]}`, `0: 1700000000000 "d" {"a": {"$numberInt":"1"}}`, `1: 1700000000000 "d" {"b": {"$numberInt":"2"}}`)
	for value, says := range map[string]string{
		`{"device":"d","value":1,"ts":1700000000}`:                       "missing_field at name: the event has no field here, but EVENT_FIELD_NAME expects the name of the value here",
		`{"device":"d","name":"x","ts":1700000000}`:                      `missing_field at value: the event lacks the value of "x"`,
		`{"device":"d","name":"x","name":"y","value":1,"ts":1700000000}`: "duplicate_field at name",
		`{"device":"d","name":"x","value":1,"value":2,"ts":1700000000}`:  "duplicate_field at x",
		`{"device":"d","name":3,"value":1,"ts":1700000000}`:              "bad_field_name at name: 3 is not a string",
		`{"device":"d","name":"","value":1,"ts":1700000000}`:             `bad_field_name at name: "" cannot be the name of a field`,
		`{"device":"d","name":"a\u0000","value":1,"ts":1700000000}`:      "cannot be the name of a field",
		`{"device":"d","name":"x","value":1,"x":2,"ts":1700000000}`:      "duplicate_field at x",
		`{"device":"d","name":"$x","value":1,"ts":1700000000}`:           "bad_field_name at $x",
		`{"name":"device","value":"d","ts":1700000000}`:                  `bad_field_name at name: the value is named "device", which is the name of the event's time or of a part of its meta`,
		`{"device":"d","name":"ts","value":1700000000}`:                  `bad_field_name at name: the value is named "ts"`,
	} {
		if got := outcomes(t, o, value); len(got) != 1 || !strings.HasPrefix(got[0], says) && !strings.Contains(got[0], says) {
			t.Errorf("%s: %s, want %s", value, got, says)
		}
	}
}

// TestValuesAreNotNamedLikeMeta checks that an event's value cannot become a part of its meta.
func TestValuesAreNotNamedLikeMeta(t *testing.T) {
	o := Options{TimeField: "ts", MetaFields: []string{"d", "loc.site", "unit=u"}, FieldName: "n", FieldValue: "v", Rename: []string{"w=u"}, DottedNames: Nest}
	for name, refused := range map[string]bool{"loc.site": true, "loc": true, "loc.site.x": true, "u": true, "w": true, "d": true, "ts": true, "loc.sites": false, "lo": false, "temp": false} {
		got := outcomes(t, o, `{"d":"d","ts":1700000000,"n":"`+name+`","v":1}`)
		if is := len(got) == 1 && strings.Contains(got[0], "bad_field_name at n: the value is named"); is != refused {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestNameInAnArrayIsNoName checks the advice for names of values that no path reaches. EVENT_SKIP would skip such events.
func TestNameInAnArrayIsNoName(t *testing.T) {
	for _, test := range []struct{ list, value, says string }{
		{"", `{"device":"d","ts":1700000000,"r":[{"n":"a"}],"v":1}`, "r is an array, and paths do not lead into arrays (EVENT_LIST splits an array into events), but EVENT_FIELD_NAME expects"},
		{"r", `{"device":"d","ts":1700000000,"r":[{"n":"a","v":1}]}`, "begin the path in the element, as in n)"},
	} {
		o := staged(func(o *Options) {
			if o.FieldName, o.FieldValue = "r.n", "v"; test.list != "" {
				o.List = []string{test.list}
			}
		})
		if err := firstError(t, o, test.value); !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "EVENT_SKIP") {
			t.Errorf("%s: %v, want %s", test.value, err, test.says)
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

// TestAdviceToSkipSkipsNothingElse checks that errors do not advise a condition that events without the error meet.
func TestAdviceToSkipSkipsNothingElse(t *testing.T) {
	lists := staged(func(o *Options) { o.List = []string{"temperatures", "pressures"} })
	renamed := staged(func(o *Options) { o.Rename, o.Fields = []string{"uplink=u"}, "u" })
	for _, o := range []Options{lists, renamed} {
		if got := outcomes(t, o, `{"device":"d","ts":1700000000,"join":1}`); len(got) != 1 || strings.Contains(got[0], "EVENT_SKIP='") {
			t.Error(got)
		}
	}
	renamed.Rename = nil
	if got := outcomes(t, renamed, `{"device":"d","ts":1700000000,"join":1}`); len(got) != 1 || !strings.Contains(got[0], "skip such events with EVENT_SKIP='!u', or correct") {
		t.Error(got)
	}
}

func TestConditionsCompareNumbers(t *testing.T) {
	for _, test := range []struct {
		value string
		meets []string
		not   []string
	}{
		{`{"$numberDecimal":"1.50"}`, []string{"1.5", "1.50", "15e-1"}, []string{"1", "1.51", "x", "NaN"}},
		{`{"$numberDecimal":"-0.00"}`, []string{"0", "0.0", "-0"}, []string{"1", "false", ""}},
		{`{"$numberDecimal":"1E+400"}`, []string{"1e400"}, []string{"0", "Infinity"}},
		{`0.0`, []string{"0"}, []string{"1e-400"}},
		{`{"$numberDecimal":"100"}`, []string{"100", "1e2", "100.0"}, []string{"1", "10"}},
		{`{"$numberDecimal":"NaN"}`, []string{"NaN"}, []string{"0", "Infinity"}},
		{`{"$numberDecimal":"-Infinity"}`, []string{"-Infinity"}, []string{"Infinity", "NaN"}},
		{`{"$numberDouble":"NaN"}`, []string{"NaN", "nan"}, []string{"0"}},
		{`{"$numberDouble":"0.1"}`, []string{"0.1", "0.10", "1e-1"}, []string{"0"}},
		{`{"$numberDouble":"-0.0"}`, []string{"0", "0.0"}, []string{"1"}},
		{`0`, []string{"0", "0.0", "-0", "0e5"}, []string{"0.5", "NaN", ""}},
		{`{"$numberLong":"9223372036854775807"}`, []string{"9223372036854775807", "9223372036854775807.0"}, []string{"9223372036854775806", "9.3e18"}},
		{`"1"`, []string{"1"}, []string{"1.0"}},
	} {
		for i, text := range append(slices.Clone(test.meets), test.not...) {
			o := staged(func(o *Options) { o.Format, o.Skip = ExtJSON, []string{"v=" + text} })
			got := outcomes(t, o, `{"device":"d","ts":1700000000,"v":`+test.value+`}`)
			if skipped := len(got) == 1 && got[0] == "skipped: 1"; skipped != (i < len(test.meets)) {
				t.Errorf("%s = %s: %s", test.value, text, got)
			}
		}
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
