package measurement

import (
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		message string
		options Options
	}{
		{`format "xml"`, Options{Format: "xml"}},
		{`meta field is empty`, Options{TimeField: "time"}},
		{`source of meta "header"`, Options{MetaFrom: "header"}},
		{`dotted names "keep"`, Options{MetaField: "m", DottedNames: "keep"}},
		{`not between 1 and`, Options{MetaField: "m", MaxBytes: -1}},
		{`not between 1 and`, Options{MetaField: "m", MaxBytes: 1 << 30}},
		{`not a dotted path`, Options{MetaField: "a..b"}},
		{`not a dotted path`, Options{MetaField: "m", TimeField: "$.time"}},
		{`EVENT_META_FIELD=a.b: lies inside EVENT_TIME_FIELD=a, which takes`, Options{MetaField: "a.b", TimeField: "a"}},
		{`EVENT_META_FIELD=a: contains EVENT_TIME_FIELD=a.b, and takes`, Options{MetaField: "a", TimeField: "a.b"}},
		{`EVENT_META_FIELD=a: is the same field as EVENT_TIME_FIELD`, Options{MetaField: "a", TimeField: "a"}},
		{`framing "connect"`, Options{MetaField: "m", Framing: "connect"}},
		{`framing "confluent" of bson`, Options{MetaField: "m", Framing: Confluent, Format: BSON}},
		{`made of fields and taken from key`, Options{MetaFields: []string{"a"}, MetaFrom: MetaFromKey}},
		{`one field ("m") or made of several fields`, Options{MetaFields: []string{"a"}, MetaField: "m"}},
		{`nor a Go layout with year`, Options{MetaField: "m", TimeFormat: "iso"}},
		{`nor a Go layout with year`, Options{MetaField: "m", TimeFormat: "15:04:05"}},
		{`abbreviated time zone`, Options{MetaField: "m", TimeFormat: "Mon, 02 Jan 2006 15:04:05 MST"}},
	}
	for _, test := range tests {
		if _, err := New(test.options); err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%+v: %v, want …%s…", test.options, err, test.message)
		}
	}
	for _, o := range []Options{
		{MetaFrom: MetaFromNone, MetaField: "a", TimeField: "a"},
		{MetaField: "a.b", TimeField: "a.bc"},
		{MetaField: "a", TimeFormat: "Mon, 02 Jan 2006 15:04:05 -0700"},
		{MetaField: "/a", TimeField: "/b"}, // without a root a slash is part of the name
		{MetaField: "m", Root: "a", Fields: "b", Drop: []string{"b.c", "/a.b.d"}, TimeField: "/at"},
		{MetaFields: []string{"a.x", "y=b.x", "a.z"}, Fields: "a", TimeField: "a.t"},
	} {
		newDecoder(t, o)
	}
}
