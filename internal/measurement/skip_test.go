package measurement

import (
	"slices"
	"strings"
	"testing"
)

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
