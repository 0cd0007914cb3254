package measurement

import (
	"strings"
	"testing"
)

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
