package measurement

import (
	"fmt"
	"strings"
	"testing"
)

func TestMissingFieldNamesThoseThatAreThere(t *testing.T) {
	for _, test := range []struct{ value, want string }{
		{`{"meta": 1, "temp": 21, "timestamp": 1700000000, "ts": "2023-11-14T22:13:20Z"}`, "it has timestamp, ts: set EVENT_TIME_FIELD"},
		{`{"meta": 1, "header": {"sent": "1700000000"}, "x": [1]}`, "it has header.sent: set EVENT_TIME_FIELD"},
		{`{"meta": 1, "payload.at": 1700000000123}`, "it has payload.at: set EVENT_TIME_FIELD"},
		{`{"meta": 1, "temp": 21, "old": "1970-01-01T00:00:00Z"}`, "it has meta, temp, old: send it, or set EVENT_TIME_FIELD"},
		{`{}`, "no such field: send it, or set EVENT_TIME_FIELD"},
		{`{"time": 1700000000, "temp": 21.5, "host": "a", "site": {"id": 7}, "id": 9}`, "it has host, site, id: set EVENT_META_FIELD"},
		{`{"time": 1700000000, "temp": 21.5, "sent": "2023-11-14T22:13:20Z"}`, "it has time, temp, sent: send it, or set EVENT_META_FIELD"},
	} {
		err := refusal(t, newDecoder(t, plainOptions), recordOf(test.value))
		if !strings.Contains(err.Detail, test.want) {
			t.Errorf("%s: %v, want …%s…", test.value, err, test.want)
		}
	}
}

// TestPathsIntoArraysAreNamed checks the error about a field that exists but that no path can reach.
func TestPathsIntoArraysAreNamed(t *testing.T) {
	const value = `{"meta": 1, "list": [{"at": 1700000000}], "o": {"l.m": [1]}, "x[0]": {"at": 1700000000}, "p": {"q": [{"at": 1}]}}`
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{TimeField: "list.0.at", MetaField: "meta"}, "list is an array, and paths do not lead into arrays (EVENT_LIST splits an array into events); it has x[0].at: set EVENT_TIME_FIELD"},
		{Options{TimeField: "list[0].at", MetaField: "meta"}, "list is an array, and paths do not lead into arrays"},
		{Options{TimeField: "o.l.m[0]", MetaField: "meta"}, "o.l.m is an array"},
		{Options{TimeField: "x[0].at", MetaField: "list[0]"}, "list is an array"},
		{Options{TimeField: "q[0].at", MetaField: "/meta", Root: "p"}, "q is an array, and paths do not lead into arrays (EVENT_LIST splits an array into events); EVENT_ROOT=p has q"},
		{Options{TimeField: "/list.0.at", MetaField: "/meta", Root: "p"}, "list is an array, and paths do not lead into arrays"},
		{Options{TimeField: "list.at.x", MetaField: "meta", MetaFrom: MetaFromKey}, "list is an array"},
		{Options{TimeField: "o.n", MetaField: "meta"}, "the event has no such field"},
		{Options{TimeField: "meta.n", MetaField: "p"}, "the event has no such field"},
	} {
		r := recordOf(value)
		r.Key = []byte("k")
		if err := refusal(t, newDecoder(t, test.options), r); !strings.Contains(err.Detail, test.want) {
			t.Errorf("%+v: %v, want …%s…", test.options, err, test.want)
		}
	}
	x := decodeOne(t, newDecoder(t, Options{TimeField: "x[0].at", MetaField: "meta"}), recordOf(value)) // brackets in a name are part of the name
	if x.Time != eventTime*1000 {
		t.Error(x.Time)
	}
}

// TestMissingFieldsAreNamedWithinBounds checks that neither many nor long fields make a message long or slow.
func TestMissingFieldsAreNamedWithinBounds(t *testing.T) {
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `"f%d\u2028": 1700000000, "%s": 1, "g%d": "secret", `, i, strings.Repeat("n", 100)+fmt.Sprint(i), i)
	}
	value := "{" + many.String() + `"last": 1}`
	o := plainOptions
	o.MaxBytes = len(value)
	d := newDecoder(t, o)
	err := refusal(t, d, recordOf(value))
	if len(err.Error()) > 512 || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\u2028") {
		t.Errorf("%d bytes: %v", len(err.Error()), err)
	}
	if !strings.Contains(err.Detail, "it has g0, g1, g2, g3, g4:") {
		t.Error(err)
	}
}
