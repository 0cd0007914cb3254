package measurement

import (
	"testing"

	"waterwheel/record"
)

func TestElementIsCutOutOfItsRecord(t *testing.T) {
	d, err := New(Options{MetaFrom: MetaFromNone})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		value string
		part  int32
		want  string // empty: none
	}{
		{`[{"a":1}, {"b": [2, 3]} ,3]`, 0, `{"a":1}`},
		{`[{"a":1}, {"b": [2, 3]} ,3]`, 1, `{"b": [2, 3]}`},
		{`[{"a":1}, {"b": [2, 3]} ,3]`, 2, `3`},
		{`[{"a":1}]`, 1, ``},
		{`[]`, 0, ``},
		{`{"a":1}`, 0, ``},
		{`[{"a":`, 0, ``},
		{``, 0, ``},
	} {
		got, ok := d.Element(record.Record{Value: []byte(test.value)}, test.part)
		if ok != (test.want != "") || string(got) != test.want {
			t.Errorf("element %d of %s: got %q, %v, want %q", test.part, test.value, got, ok, test.want)
		}
	}
}
