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
		{`not a dotted path`, Options{MetaField: "m", TimeField: "$time"}},
		{`inside one another`, Options{MetaField: "a.b", TimeField: "a"}},
		{`inside one another`, Options{MetaField: "a", TimeField: "a.b"}},
		{`inside one another`, Options{MetaField: "a", TimeField: "a"}},
		{`nor a Go layout with year`, Options{MetaField: "m", TimeFormat: "iso"}},
		{`nor a Go layout with year`, Options{MetaField: "m", TimeFormat: "15:04:05"}},
		{`abbreviated zone`, Options{MetaField: "m", TimeFormat: "Mon, 02 Jan 2006 15:04:05 MST"}},
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
	} {
		newDecoder(t, o)
	}
}
