package measurement

import (
	"errors"
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// registryOptions returns the options of events in Avro that name their schemas.
func registryOptions() Options {
	o := plainOptions
	o.Format, o.Framing = Avro, Confluent
	return o
}

// TestSchemasAreNeededAndLearned covers frames, headers and GUIDs. Each schema is needed once.
func TestSchemasAreNeededAndLearned(t *testing.T) {
	guid := string([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	d := newDecoder(t, registryOptions())
	for _, test := range []struct{ frame, header, id string }{
		{"\x00\x00\x00\x01\x02", "", "258"},
		{"", "\x00\x00\x00\x01\x03", "259"},
		{"", "\x01" + guid, "00010203-0405-0607-0809-0a0b0c0d0e0f"},
	} {
		r := record.Record{Offset: 7, Timestamp: recordTime, Value: []byte(test.frame + readingOfAvro + "\x02")}
		if test.header != "" {
			r.Headers = record.EncodeHeaders([]record.Header{{Key: schemaHeader, Value: []byte("old")}, {Key: schemaHeader, Value: []byte(test.header)}})
		}
		_, err := d.Decode(r)
		need, is := errors.AsType[*NeedSchemaError](err)
		if !is || need.ID.String() != test.id {
			t.Fatalf("%v, want schema %s", err, test.id)
		}
		if events := d.Events(r); len(events) != 0 {
			t.Errorf("%d events of a schema that is not known", len(events))
		}
		d.Learn(need.ID, Schema{Text: readingSchema(`{"name":"x","type":"int"}`)})
		if m := decodeOne(t, d, r); document(t, m.Elements).String() != `{"x": {"$numberInt":"1"}}` || len(d.Events(r)) != 1 {
			t.Errorf("%s is read as %v", test.id, document(t, m.Elements))
		}
		d.Learn(need.ID, Schema{Reason: UnknownSchema, Detail: "the registry has none"})
		if err := refusal(t, d, r); err.Reason != UnknownSchema || err.Detail != "schema "+test.id+": the registry has none" {
			t.Errorf("a schema that is none: %v", err)
		}
		d.Learn(need.ID, Schema{Text: `"long"`})
		if err := refusal(t, d, r); err.Reason != BadSchema || !strings.Contains(err.Detail, "not a record") {
			t.Errorf("a schema of no record: %v", err)
		}
		d.Forget(need.ID)
		if _, err := d.Decode(r); !errors.As(err, new(*NeedSchemaError)) {
			t.Errorf("after it was forgotten: %v", err)
		}
	}
	r := record.Record{Value: []byte(readingOfAvro), Headers: record.EncodeHeaders([]record.Header{{Key: schemaHeader, Value: []byte("\x02")}})}
	if err := refusal(t, d, r); err.Reason != NotAvro || !strings.Contains(err.Detail, "names no schema") {
		t.Errorf("a header that names nothing: %v", err)
	}
}

// TestSchemasReferToOthers covers types of other schemas, which refer to further ones.
func TestSchemasReferToOthers(t *testing.T) {
	d := newDecoder(t, registryOptions())
	id := SchemaID{Number: 1}
	d.Learn(id, Schema{Text: readingSchema(`{"name":"x","type":"plant.B"}`), References: []string{
		`{"type":"enum","name":"A","namespace":"plant","symbols":["ON"]}`,
		`{"type":"record","name":"B","namespace":"plant","fields":[{"name":"a","type":"A"}]}`,
	}})
	r := record.Record{Offset: 7, Timestamp: recordTime, Value: []byte("\x00\x00\x00\x00\x01" + readingOfAvro + "\x00")}
	if m := decodeOne(t, d, r); document(t, m.Elements).String() != `{"x": {"a": "ON"}}` {
		t.Errorf("it is read as %v", document(t, m.Elements))
	}
	d.Learn(id, Schema{Text: readingSchema(), References: make([]string, MaxReferences+1)})
	if err := refusal(t, d, r); err.Reason != BadSchema || !strings.Contains(err.Detail, "101 references") {
		t.Errorf("with too many references: %v", err)
	}
}
