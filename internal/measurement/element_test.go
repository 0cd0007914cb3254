package measurement

import (
	"testing"

	"waterwheel/internal/record"
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

// TestElementsOfFramedRecordsAreFramed checks this because a letter of an element must be redrivable to the topic.
func TestElementsOfFramedRecordsAreFramed(t *testing.T) {
	const frame = "\x00\x00\x00\x00\x07"
	for _, format := range []Format{JSON, ExtJSON} {
		d := newDecoder(t, Options{MetaFrom: MetaFromNone, Framing: Confluent, Format: format})
		r := recordOf(frame + `[{"a":1}, 3]`)
		results, err := d.Decode(r)
		if err != nil || len(results) != 2 || results[0].Err != nil {
			t.Fatalf("%v, %v", results, err)
		}
		if bad := results[1].Err; bad == nil || bad.Reason != NotObject || string(bad.Value) != frame+"3" {
			t.Errorf("%v, value %q", bad, bad.Value)
		}
		if got, ok := d.Element(r, 0); !ok || string(got) != frame+`{"a":1}` {
			t.Errorf("element %q, %v", got, ok)
		}
		again := decodeOne(t, d, recordOf(frame+`{"a":1}`))
		if got := shown(t, again); got != `1700000060000 absent {"a": {"$numberInt":"1"}}` {
			t.Error(got)
		}
	}
}
