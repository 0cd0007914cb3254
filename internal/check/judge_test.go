package check

import (
	"slices"
	"strings"
	"testing"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// registered runs records of Avro through a sampler whose registry has the schema 1 only.
func registered(t *testing.T, format measurement.Format, records ...record.Record) (Sample, Findings) {
	t.Helper()
	decoding, bucketing := eventOptions(t, func(o *measurement.Options) {
		o.Format, o.MetaField, o.MetaFields = format, "", []string{"d"}
		if format == measurement.Avro {
			o.Framing = measurement.Confluent
		}
		o.Ask = func(id measurement.SchemaID) (measurement.Schema, error) {
			if id.Number != 1 {
				return measurement.Schema{Reason: measurement.UnknownSchema, Detail: "the registry has no schema with this id"}, nil
			}
			return measurement.Schema{Format: measurement.Avro, Text: `{"type":"record","name":"r","fields":[{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"d","type":"string"}]}`}, nil
		}
	})
	s, err := newSampler("events", decoding, bucketing)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		records[i].Offset, records[i].Timestamp = int64(i), 1_700_000_000_000
		s.take(0, &records[i])
	}
	view := s.finish()
	var found Findings
	s.judge(&found)
	return view, found
}

// avroBody is a record of Avro: the time 1700000000000, and the text "a".
const avroBody = "\x80\xd0\x95\xff\xf9\x62\x02a"

// TestSchemaThatTheRegistryDoesNotHave checks that check says what run does: run stops the partition if the registry has returned
// no schema of the topic, and makes dead letters otherwise.
func TestSchemaThatTheRegistryDoesNotHave(t *testing.T) {
	known, unknown := record.Record{Value: []byte("\x00\x00\x00\x00\x01" + avroBody)}, record.Record{Value: []byte("\x00\x00\x00\x00\x4d" + avroBody)}
	byGUID := record.Record{Value: []byte(avroBody), Headers: headersOf("__value_schema_id", "\x01\x02"+strings.Repeat("\x00", 15))}
	for id, one := range map[string]record.Record{"77": unknown, "02000000-0000-0000-0000-000000000000": byGUID} {
		view, found := registered(t, measurement.Avro, one, one)
		if view.Stops == nil || view.Stops.Count != 2 || len(view.Bad) > 0 || found.Count(Wrong) != 1 || found.Count(OK) > 0 ||
			!found.has(Wrong, "run would stop the partition of events/0/0 (unknown_schema): the registry has no schema "+id) || found[0].WayOut != rightRegistry {
			t.Errorf("%s: %+v %+v", id, view, found)
		}
		if want := "the records name schemas that the registry does not have: " + rightRegistry; view.Unproposed != want {
			t.Errorf("%s: %q, want %q", id, view.Unproposed, want)
		}
		view, found = registered(t, measurement.Avro, known, one, one)
		if view.Stops != nil || len(view.Bad) != 1 || view.Bad[0].Reason != "unknown_schema" || !found.has(Wrong, "2 of 3 events would become dead letters") ||
			!strings.HasSuffix(found[0].WayOut, "2 of 3 records name schemas that the registry does not have: "+rightRegistry) {
			t.Errorf("%s beside a known schema: %+v %+v", id, view, found)
		}
		if view, found = registered(t, measurement.JSON, one); view.Stops != nil || !strings.Contains(view.Unproposed, "does not have") {
			t.Errorf("%s read as JSON: %+v %+v", id, view, found)
		}
	}
	wide := record.Record{Value: []byte("\x00{\x00\"\x00d\x00\"\x00:\x001\x00}")}
	if view, _ := registered(t, measurement.JSON, wide, wide); !strings.Contains(view.Unproposed, "UTF-16") {
		t.Errorf("UTF-16: %q", view.Unproposed)
	}
	framed := record.Record{Value: []byte("\x00\x00\x00\x00\x4d" + `{"time":1700000000,"d":"a"}`)}
	if view, _ := registered(t, measurement.JSON, framed); view.Proposal == nil || !strings.Contains(view.Proposal.Line(), "EVENT_FRAMING=confluent") {
		t.Errorf("JSON behind an unknown id: %+v", view.Advice)
	}
}

// TestHeadersThatNameSchemasAreNotLost checks that check does not list headers among what is lost if the decoder reads them.
func TestHeadersThatNameSchemasAreNotLost(t *testing.T) {
	var records []record.Record
	for range 30 {
		headers := headersOf("__value_schema_id", "\x00\x00\x00\x00\x01")
		headers = append(append([]byte{4}, headers[1:]...), headersOf("trace", "x")[1:]...)
		records = append(records, record.Record{Value: []byte(avroBody), Headers: headers})
	}
	view, _ := registered(t, measurement.JSON, records...)
	var all []string
	if p := view.Proposal; p != nil {
		all = p.Loses
	}
	for _, c := range view.Choices {
		all = append(all, c.Loses...)
	}
	if !slices.Contains(all, "the records' headers: trace") || strings.Contains(strings.Join(all, " "), "schema_id") {
		t.Errorf("%q of %+v", all, view.Advice)
	}
}
