package pipeline

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

const registrySchema = `{"type":"record","name":"R","fields":[{"name":"time","type":"long"},{"name":"meta","type":"string"},{"name":"x","type":"int"}]}`

// framed returns a record with a schema id.
func framed(offset int64, id byte) record.Record {
	value := binary.AppendVarint([]byte{0, 0, 0, 0, id}, 1_700_000_000)
	return record.Record{Offset: offset, Timestamp: 1_700_000_000_000, Value: append(value, "\x02m\x02"...)}
}

// withRegistry returns a worker whose records name schemas.
func withRegistry(t *testing.T) (*Worker, Moment) {
	t.Helper()
	return withDecoding(t, measurement.Options{Format: measurement.Avro, Framing: measurement.Confluent, TimeField: "time", MetaField: "meta"})
}

// withDecoding returns a worker with decoding options.
func withDecoding(t *testing.T, decoding measurement.Options) (*Worker, Moment) {
	t.Helper()
	return newTestWorker(t, func(o *Options) {
		decoder, err := measurement.New(decoding)
		if err != nil {
			t.Fatal(err)
		}
		o.Decoder = decoder
	})
}

// give hands the worker records from an offset on, with these schema ids.
func give(w *Worker, m Moment, from int64, ids ...byte) []Action {
	batch := record.Batch{Next: from + int64(len(ids)), End: 100}
	for i, id := range ids {
		batch.Records = append(batch.Records, framed(from+int64(i), id))
	}
	return w.Handle(m, Fetched{Batch: batch})
}

// TestRecordWaitsForItsSchema checks that nothing is decoded before the schema is known, and that an unavailable registry makes
// no letter.
func TestRecordWaitsForItsSchema(t *testing.T) {
	w, m := withRegistry(t)
	actions := give(w, m, 0, 1, 1, 2)
	absent[Fetch](t, actions)
	if id := expect[FetchSchema](t, actions).ID; id.Number != 1 || w.offsetTracker.next != 0 {
		t.Fatalf("asked for schema %s at offset %d", id, w.offsetTracker.next)
	}
	for range 20 {
		w.Handle(m, SchemaFetched{ID: measurement.SchemaID{Number: 1}, Err: errDown})
		m.Now += longestDelay
		expect[FetchSchema](t, w.Handle(m, Ticked{}))
	}
	if w.failures[Registry] == nil || !w.deadLetters.empty() || w.offsetTracker.next != 0 {
		t.Fatalf("during the outage: %v, %d letters, read up to %d", w.failures[Registry], len(w.deadLetters.waiting), w.offsetTracker.next)
	}
	actions = w.Handle(m, SchemaFetched{ID: measurement.SchemaID{Number: 1}, Answer: SchemaAnswer{Schema: measurement.Schema{Text: registrySchema}}})
	if expect[Fetch](t, actions).Offset != 0 || w.failures[Registry] != nil {
		t.Fatalf("after it: %v, %v", actions, w.failures[Registry])
	}
	actions = give(w, m, 0, 1, 1, 2)
	if id := expect[FetchSchema](t, actions).ID; id.Number != 2 || w.offsetTracker.next != 2 {
		t.Fatalf("asked for schema %s at offset %d", id, w.offsetTracker.next)
	}
	if pending, _ := w.catalog.Pending(); pending != 2 {
		t.Errorf("%d measurements are pending", pending)
	}
}

// TestUnknownSchemaIsALetterOrStops expects a letter if the registry knows the topic. Otherwise it may be the wrong registry.
func TestUnknownSchemaIsALetterOrStops(t *testing.T) {
	for _, knows := range []bool{true, false} {
		w, m := withRegistry(t)
		expect[FetchSchema](t, give(w, m, 0, 7))
		unknown := SchemaFetched{ID: measurement.SchemaID{Number: 7}, Answer: SchemaAnswer{Unknown: true, KnowsTopic: knows}}
		begin := m.Now
		for m.Now-begin < DefaultSchemaUnknownWait {
			absent[Fetch](t, w.Handle(m, unknown))
			if !w.deadLetters.empty() || w.halt != nil {
				t.Fatalf("after %v: %d letters, %v", m.Now-begin, len(w.deadLetters.waiting), w.halt)
			}
			m.Now += longestDelay
			expect[FetchSchema](t, w.Handle(m, Ticked{}))
		}
		actions := w.Handle(m, unknown)
		if !knows {
			if w.halt == nil || w.halt.Reason != "unknown_schema" || !w.deadLetters.empty() {
				t.Errorf("it goes on: %v, %d letters", w.halt, len(w.deadLetters.waiting))
			}
			continue
		}
		expect[Fetch](t, actions)
		absent[FetchSchema](t, give(w, m, 0, 7, 7, 7)) // the next records need no further question
		if w.deadLetters.empty() || w.offsetTracker.next != 3 {
			t.Errorf("%d letters, read up to %d", len(w.deadLetters.waiting), w.offsetTracker.next)
		}
		m.Now += badSchemaFor + time.Second
		expect[FetchSchema](t, give(w, m, 3, 7))
		if m.Now += time.Second; w.Status(m.Now).SchemaWait != time.Second || w.Status(m.Now).Paused == "" {
			t.Errorf("waits for %v, paused: %q", w.Status(m.Now).SchemaWait, w.Status(m.Now).Paused)
		}
	}
}

// TestALateAnswerMakesNoLetter has a process suspended between the question and its answer. The registry may have had the schema
// since, so the worker asks once more.
func TestALateAnswerMakesNoLetter(t *testing.T) {
	w, m := withRegistry(t)
	expect[FetchSchema](t, give(w, m, 0, 7))
	unknown := SchemaFetched{ID: measurement.SchemaID{Number: 7}, Answer: SchemaAnswer{Unknown: true, KnowsTopic: true}}
	w.Handle(m, unknown)
	m.Now += longestDelay
	expect[FetchSchema](t, w.Handle(m, Ticked{}))
	m.Now += DefaultSchemaUnknownWait
	if w.Handle(m, unknown); !w.deadLetters.empty() {
		t.Fatal("an answer that came too late made a letter")
	}
	m.Now += longestDelay
	expect[FetchSchema](t, w.Handle(m, Ticked{}))
	if w.Handle(m, unknown); w.deadLetters.empty() && w.needed != nil {
		t.Error("the worker waits for ever")
	}
}

// TestSchemaOfForgottenRecordsIsNotLearned covers an answer after the records are forgotten.
func TestSchemaOfForgottenRecordsIsNotLearned(t *testing.T) {
	w, m := withRegistry(t)
	expect[FetchSchema](t, give(w, m, 0, 1))
	w.Handle(m, Abandoned{})
	w.Handle(m, Dropped{})
	w.Handle(m, SchemaFetched{ID: measurement.SchemaID{Number: 1}, Answer: SchemaAnswer{Schema: measurement.Schema{Text: registrySchema}}})
	r := framed(0, 1)
	if _, err := w.o.Decoder.Decode(r); !errors.As(err, new(*measurement.NeedSchemaError)) {
		t.Errorf("it was learned: %v", err)
	}
}

// inProtobuf returns a Protobuf schema of a reading with time, meta and x, as a registry's client compiles it.
func inProtobuf(t *testing.T) measurement.Schema {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	}
	text, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("r.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("R"), Field: []*descriptorpb.FieldDescriptorProto{
			field("time", 1, descriptorpb.FieldDescriptorProto_TYPE_INT64), field("meta", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING),
			field("x", 3, descriptorpb.FieldDescriptorProto_TYPE_INT32),
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return measurement.Schema{Format: measurement.Protobuf, Text: string(text)}
}

// TestProtobufAndKeysWaitForTheirSchemas has a record that waits for the schema of its key and for a value schema in another
// language. The registry is unavailable before each. A record that no schema can decode is a letter, and so are the next ones.
func TestProtobufAndKeysWaitForTheirSchemas(t *testing.T) {
	w, m := withDecoding(t, measurement.Options{Format: measurement.Protobuf, Framing: measurement.Confluent, TimeField: "time", MetaFrom: measurement.MetaFromKey})
	value := binary.AppendUvarint([]byte{0, 0, 0, 0, 2, 0, 1 << 3}, 1_700_000_000)
	give := func(from int64, indexes byte, key byte) []Action {
		batch := record.Batch{Next: from + 1, End: 100}
		batch.Records = []record.Record{{Offset: from, Timestamp: 1_700_000_000_000, Key: []byte{0, 0, 0, 0, key, 2, 'k'}, Value: append(append([]byte{}, value[:5]...), append([]byte{2, indexes}, value[6:]...)...)}}
		return w.Handle(m, Fetched{Batch: batch})
	}
	actions := give(0, 0, 1)
	for _, step := range []struct {
		id     uint32
		schema measurement.Schema
	}{{1, measurement.Schema{Format: measurement.Avro, Text: `"string"`}}, {2, inProtobuf(t)}} {
		if id := expect[FetchSchema](t, actions).ID; id.Number != step.id || w.offsetTracker.next != 0 {
			t.Fatalf("asked for schema %s, want %d, at offset %d", id, step.id, w.offsetTracker.next)
		}
		for range 5 {
			absent[Fetch](t, w.Handle(m, SchemaFetched{ID: measurement.SchemaID{Number: step.id}, Err: errDown}))
			m.Now += longestDelay
			expect[FetchSchema](t, w.Handle(m, Ticked{}))
		}
		if w.failures[Registry] == nil || !w.deadLetters.empty() {
			t.Fatalf("during the outage: %v, %d letters", w.failures[Registry], len(w.deadLetters.waiting))
		}
		if actions = w.Handle(m, SchemaFetched{ID: measurement.SchemaID{Number: step.id}, Answer: SchemaAnswer{Schema: step.schema}}); w.failures[Registry] != nil {
			t.Fatalf("after it: %v", w.failures[Registry])
		}
		expect[Fetch](t, actions)
		actions = give(0, 0, 1)
	}
	if pending, _ := w.catalog.Pending(); pending != 1 || w.offsetTracker.next != 1 || !w.deadLetters.empty() {
		t.Fatalf("%d measurements are pending, read up to %d", pending, w.offsetTracker.next)
	}
	absent[FetchSchema](t, give(1, 18, 1)) // message indexes without a message
	expect[FetchSchema](t, give(2, 0, 3))
	w.Handle(m, SchemaFetched{ID: measurement.SchemaID{Number: 3}, Answer: SchemaAnswer{Schema: measurement.Schema{Reason: measurement.BadSchema, Detail: "it cannot be compiled: line 3"}}})
	for offset := range int64(2) {
		absent[FetchSchema](t, give(2+offset, 0, 3))
	}
	if pending, _ := w.catalog.Pending(); pending != 1 || w.offsetTracker.next != 4 || w.deadLetters.empty() {
		t.Errorf("%d measurements are pending, read up to %d, %d letters", pending, w.offsetTracker.next, len(w.deadLetters.waiting))
	}
}
