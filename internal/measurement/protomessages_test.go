package measurement

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"waterwheel/internal/record"
)

// protoRegistryOptions returns the options of events in Protobuf that name their schemas.
func protoRegistryOptions() Options {
	o := plainOptions
	o.Format, o.Framing = Protobuf, Confluent
	return o
}

// protoFrame returns the frame of a schema with message indexes, as serializers write it.
func protoFrame(id uint32, indexes ...int) []byte {
	frame := binary.BigEndian.AppendUint32([]byte{0}, id)
	if len(indexes) == 1 && indexes[0] == 0 {
		return append(frame, 0)
	}
	frame = binary.AppendVarint(frame, int64(len(indexes)))
	for _, index := range indexes {
		frame = binary.AppendVarint(frame, int64(index))
	}
	return frame
}

// countedFile has messages that serializers count differently. B and D come after the entries of a map, and F after a group.
const countedFile = `syntax = "proto2"; package plant; import "google/protobuf/timestamp.proto";
	message Reading { required google.protobuf.Timestamp time = 1; required string meta = 2; map<string, int32> m = 3;
		message B { required google.protobuf.Timestamp time = 1; required string meta = 2; required int32 b = 3; }
		message D { required google.protobuf.Timestamp time = 1; required string meta = 2; required int32 d = 3; message Deep { required google.protobuf.Timestamp time = 1; required string meta = 2; } }
		enum NoMessage { A = 0; } }
	message E { optional group G = 3 { optional int32 g = 1; }
		message F { required google.protobuf.Timestamp time = 1; required string meta = 2; required int32 f = 3; } }
	message Only { required google.protobuf.Timestamp time = 1; required string meta = 2; message In { required google.protobuf.Timestamp time = 1; required string meta = 2; } }`

// TestMessageIndexesChooseTheMessage also covers files whose messages serializers count differently, and the message's name.
func TestMessageIndexesChooseTheMessage(t *testing.T) {
	set := protoSet(t, protoFile(t, countedFile))
	event := readingOfProto + string(wireVarint(3, 7))
	for _, test := range []struct {
		indexes string // the bytes after the id
		message string // EVENT_PROTOBUF_MESSAGE
		want    string // the fields, or a part of the error
	}{
		{"\x00", "", `{"m":{}}`},
		{"\x02\x00", "", `{"m":{}}`}, // the same in the long form
		{"\x00", "plant.Reading", `{"m":{}}`},
		{"\x00", ".plant.Reading", `{"m":{}}`},
		{"\x00", "plant.Only", "the value is the message plant.Reading, but EVENT_PROTOBUF_MESSAGE=plant.Only"},
		{"\x02\x04", "", `{}`},
		{"\x04\x04\x00", "", `{}`},
		{"\x04\x00\x00", "", `{"b":7}`}, // the map's entry message is no message of events
		{"\x04\x00\x04", "", `{"d":7}`}, // the text has only two of them
		{"\x04\x00\x02", "", "the message indexes [0 1] are ambiguous: they mean plant.Reading.D, or plant.Reading.B if the serializer also"},
		{"\x04\x00\x02", "plant.Reading.B", `{"b":7}`},
		{"\x04\x00\x02", "plant.Reading.D", `{"d":7}`},
		{"\x06\x00\x04\x00", "", `{}`},
		{"\x04\x02\x02", "", `{"f":7}`},
		{"\x04\x02\x00", "plant.E.F", `{"f":7}`},
		{"\x02\x06", "", "the message indexes [3] name no message of the schema, which has E, Only, Reading: was the record written with another schema"},
		{"\x04\x00\x06", "", "the message indexes [0 3] name no message"},
		{"\x06\x04\x00\x00", "", "the message indexes [2 0 0] name no message"},
		{"", "", "message indexes must follow the id of the schema 7, but"},
		{"\x01\x00", "", "message indexes must follow"},                                     // a negative number
		{"\x02\x01", "", "message indexes must follow"},                                     // a negative index
		{"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "", "message indexes must follow"}, // an index above 32 bits
		{"\xff\xff\xff\xff\x0f", "", "message indexes must follow"},                         // more than possible
		{"\xff", "", "message indexes must follow"},
	} {
		o := protoRegistryOptions()
		o.Message = test.message
		d := newDecoder(t, o)
		d.Learn(SchemaID{Number: 7}, Schema{Format: Protobuf, Text: set})
		value := "\x00\x00\x00\x00\x07" + test.indexes
		if !strings.HasPrefix(test.want, "no message") {
			value += event
		}
		for range 2 {
			results, err := d.Decode(record.Record{Offset: 7, Timestamp: recordTime, Value: []byte(value)})
			got := fmt.Sprint(err)
			if err == nil {
				got = strings.ReplaceAll(document(t, results[0].Measurement.Elements).String(), " ", "")
				got = strings.NewReplacer(`{"$numberInt":"7"}`, "7").Replace(got)
			}
			if wrong, ok := errors.AsType[*DecodeError](err); !strings.Contains(got, test.want) || ok && wrong.Reason != NotProtobuf {
				t.Errorf("%x with %q: %s, want %s", test.indexes, test.message, got, test.want)
			}
		}
	}
}

// TestSchemasOfProtobufAreNeededAndLearned covers frames, headers and GUIDs, with the message indexes after them.
func TestSchemasOfProtobufAreNeededAndLearned(t *testing.T) {
	guid := string([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	set := protoSet(t, protoFile(t, readingProto(`double x = 3;`)))
	d := newDecoder(t, protoRegistryOptions())
	for _, test := range []struct{ frame, header, id string }{
		{"\x00\x00\x00\x01\x02\x00", "", "258"},
		{"", "\x00\x00\x00\x01\x03\x00", "259"},
		{"", "\x01" + guid + "\x02\x00", "00010203-0405-0607-0809-0a0b0c0d0e0f"},
	} {
		r := record.Record{Offset: 7, Timestamp: recordTime, Value: []byte(test.frame + readingOfProto)}
		if test.header != "" {
			r.Headers = record.EncodeHeaders([]record.Header{{Key: schemaHeader, Value: []byte(test.header)}})
		}
		_, err := d.Decode(r)
		need, is := errors.AsType[*NeedSchemaError](err)
		if !is || need.ID.String() != test.id || len(d.Events(r)) != 0 {
			t.Fatalf("%v, want schema %s", err, test.id)
		}
		d.Learn(need.ID, Schema{Format: Protobuf, Text: set})
		if m := decodeOne(t, d, r); document(t, m.Elements).String() != `{"x": {"$numberDouble":"0.0"}}` || len(d.Events(r)) != 1 {
			t.Errorf("%s is read as %v", test.id, document(t, m.Elements))
		}
		for says, s := range map[string]Schema{
			"the registry has none":   {Reason: UnknownSchema, Detail: "the registry has none"},
			"not a descriptor set":    {Format: Protobuf, Text: "x"},
			"EVENT_FORMAT=avro":       {Format: Avro, Text: readingSchema(`{"name":"x","type":"int"}`)},
			"EVENT_FRAMING=confluent": {Format: JSON},
			"stored as a single value": {Format: Protobuf, Text: protoSet(t, protoFile(t, `syntax = "proto3"; package google.protobuf;
				message DoubleValue { double value = 1; }`))},
		} {
			d.Learn(need.ID, s)
			for range 2 {
				if err := refusal(t, d, r); !strings.Contains(err.Detail, says) || !strings.HasPrefix(err.Detail, "schema "+test.id+": ") || (err.Reason == UnknownSchema) != (s.Reason != "") {
					t.Errorf("%v, want %s", err, says)
				}
			}
		}
		d.Forget(need.ID)
		if _, err := d.Decode(r); !errors.As(err, new(*NeedSchemaError)) {
			t.Errorf("after it was forgotten: %v", err)
		}
	}
	d.Learn(SchemaID{Number: 1}, Schema{Format: Protobuf, Text: set})
	header := func(value string) []byte {
		return record.EncodeHeaders([]record.Header{{Key: schemaHeader, Value: []byte(value)}})
	}
	for _, test := range []struct {
		value   string
		headers []byte
		reason  Reason
		says    string
	}{
		{"", nil, Empty, "0 bytes"},
		{readingOfProto, nil, NotProtobuf, "set EVENT_PROTOBUF_FILE to the descriptors of all events"},
		{"x", header("\x02"), NotProtobuf, "names no schema"},
		{"x", header("\x00\x00\x00\x00\x01"), NotProtobuf, "message indexes must follow"},
		{"x", header("\x00\x00\x00\x00\x01\x00x"), NotProtobuf, "1 extra bytes after the id of the schema 1"},
		{"", header("\x00\x00\x00\x00\x01\x00"), MissingTime, ""}, // an event of zeros
	} {
		if err := refusal(t, d, record.Record{Timestamp: recordTime, Value: []byte(test.value), Headers: test.headers}); err.Reason != test.reason || !strings.Contains(err.Detail, test.says) {
			t.Errorf("%q: %v, want %s", test.value, err, test.says)
		}
	}
}

// TestKeysAreReadByTheirSchemas covers keys in Avro, Protobuf and JSON with any values, and text and JSON without a frame.
func TestKeysAreReadByTheirSchemas(t *testing.T) {
	keys := map[uint32]Schema{
		11: {Format: Avro, Text: `"string"`}, 12: {Format: Avro, Text: `"long"`},
		13: {Format: Avro, Text: `{"type":"record","name":"K","fields":[{"name":"site","type":"string"},{"name":"id","type":{"type":"enum","name":"E","symbols":["A","B"]}}]}`},
		14: {Format: Protobuf, Text: protoSet(t, protoFile(t, `syntax = "proto3"; message Other {} message Key { string site = 1; string id = 2; int32 n = 3; map<string,string> m = 4; }`))},
		15: {Format: JSON}, 16: {Reason: BadSchema, Detail: "it is damaged"}, 17: {Format: Avro, Text: `{"type":"map","values":"int"}`}, 18: {Format: Avro, Text: `{`},
	}
	values := map[Format]struct {
		schema Schema
		event  string
	}{
		Avro:     {Schema{Text: readingSchema()}, readingOfAvro},
		Protobuf: {Schema{Format: Protobuf, Text: protoSet(t, protoFile(t, readingProto(`double x = 3;`)))}, "\x00" + readingOfProto},
	}
	frame := func(id uint32) string { return string(binary.BigEndian.AppendUint32([]byte{0}, id)) }
	for format, of := range values {
		for _, test := range []struct {
			key, header string
			paths       []string // EVENT_META_FIELDS. Empty means EVENT_META_FROM=key.
			want        string
		}{
			{frame(11) + "\x08d-17", "", nil, `"d-17"`},
			{"\x08d-17", frame(11), nil, `"d-17"`},
			{frame(12) + "\x0e", "", nil, `{"$numberLong":"7"}`},
			{frame(13) + "\x0anorth\x02", "", nil, `{"id": "B","site": "north"}`},
			{frame(13) + "\x0anorth\x02", "", []string{"key:id", "site=key:site"}, `{"id": "B","site": "north"}`},
			{frame(14) + "\x02\x02\x12\x01b\x0a\x01a", "", nil, `{"id": "b","m": {},"n": {"$numberInt":"0"},"site": "a"}`},
			{frame(14) + "\x02\x02\x12\x01b\x0a\x01a", "", []string{"key:id"}, `{"id": "b"}`},
			{frame(14) + "\x02\x02\x22\x07\x0a\x03a.b\x12\x00", "", []string{"key:m"}, `{"m": {"a": {"b": ""}}}`},
			{"\x12\x01b", frame(14) + "\x02\x02", []string{"key:id"}, `{"id": "b"}`},
			{frame(15) + `{"b":1,"a":2}`, "", nil, `{"a": {"$numberInt":"2"},"b": {"$numberInt":"1"}}`},
			{"d-17", "", nil, `"d-17"`},
			{`{"id":"d"}`, "", []string{"key:id"}, `{"id": "d"}`},

			{frame(15) + "x", "", nil, `bad_meta at key: "x" is not JSON, but the schema 15 is a JSON Schema`},
			{frame(11) + "\x08d-1", "", nil, "bad_meta at key: read with the schema 11: a string is expected at byte"},
			{frame(12) + "\x0e\x0e", "", nil, "bad_meta at key: 1 of the key's 2 bytes remain after the key that the schema 12"},
			{frame(13) + "\x0anorth\x08", "", []string{"key:id"}, "bad_meta at key:id: read with the schema 13"},
			{frame(14) + "\x02\x06", "", nil, "bad_meta at key: schema 14: the message indexes [3] name no message"},
			{frame(14) + "\x02\x02\x12\x05b", "", nil, "bad_meta at key: read with the schema 14: the Protobuf message cannot be decoded"},
			{frame(16) + "x", "", nil, "bad_schema at key: schema 16: it is damaged"},
			{frame(17) + "\x04\x02a\x02\x02a\x04\x00", "", nil, "duplicate_field at key.a"},
			{frame(18) + "x", "", nil, "bad_schema at key: schema 18: not an Avro schema"},
			{"x", "\x05", nil, "bad_meta at key: the header __key_schema_id is"},
			{"\x08d-17", frame(11) + "x", nil, "bad_meta at key: the header __key_schema_id has 1 extra bytes"},
		} {
			o := registryOptions()
			o.Format, o.Drop = format, []string{"meta"}
			if o.MetaField, o.MetaFields, o.MetaFrom = "", test.paths, MetaFromValue; test.paths == nil {
				o.MetaFrom = MetaFromKey
			}
			d := newDecoder(t, o)
			r := record.Record{Offset: 7, Timestamp: recordTime, Key: []byte(test.key), Value: []byte(frame(1) + of.event)}
			if test.header != "" {
				r.Headers = record.EncodeHeaders([]record.Header{{Key: keySchemaHeader, Value: []byte(test.header)}})
			}
			var got string
			for asked := 0; ; asked++ {
				results, err := d.Decode(r)
				if need, is := errors.AsType[*NeedSchemaError](err); is && asked < 2 {
					if s, isKey := keys[need.ID.Number]; isKey {
						d.Learn(need.ID, s)
					} else {
						d.Learn(need.ID, of.schema)
					}
					continue
				}
				if got = fmt.Sprint(err); err == nil {
					got = results[0].Measurement.Meta.String()
				}
				break
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("%s, %q with %v: %s, want %s", format, test.key, test.paths, got, test.want)
			}
		}
	}
}

// chosenBy returns the message at the indexes, where hidden messages do not count. It returns nil if there is none, or if it is a
// map's entry message.
func chosenBy(file protoreflect.FileDescriptor, indexes []int, hidden ...protoreflect.Name) (of protoreflect.MessageDescriptor) {
	list := file.Messages()
	for _, index := range indexes {
		var counted []protoreflect.MessageDescriptor
		for i := range list.Len() {
			if !slices.Contains(hidden, list.Get(i).Name()) {
				counted = append(counted, list.Get(i))
			}
		}
		if index >= len(counted) || counted[index].IsMapEntry() {
			return nil
		}
		of = counted[index]
		list = of.Messages()
	}
	return of
}

// TestRandomEventsOfARegistry checks that events of random schemas after a frame with message indexes decode as with a descriptor
// set and the name of their message. A judge checks that reader (TestProtoAgainstTheJudge).
func TestRandomEventsOfARegistry(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 22))
	files, events := 200, 20
	if testing.Short() {
		files = 20
	}
	read := 0
	for i := range files {
		file := protoFile(t, randomFile(random)+`message Outer { message First {} message Nested { message Inner { Reading r = 1; double z = 2; } optional Reading r = 1; } }`)
		set := protoSet(t, file)
		byID := newDecoder(t, protoRegistryOptions())
		id := random.Uint32()
		byID.Learn(SchemaID{Number: id}, Schema{Format: Protobuf, Text: set})
		outer := file.Messages().Len() - 1
		for range events {
			indexes := [][]int{{file.Messages().ByName("Reading").Index()}, {outer, 1}, {outer, 1, 0}, {outer, 0}}[random.IntN(4)]
			of := chosenBy(file, indexes)
			o := plainOptions
			o.Format, o.Descriptors, o.Message = Protobuf, set, string(of.FullName())
			byName := newDecoder(t, o)
			value := randomProto(random, of, 1)
			if random.IntN(3) > 0 && of.Name() == "Reading" {
				value = append(value, readingOfProto...)
			}
			r := record.Record{Offset: 1, Timestamp: recordTime, Value: append([]byte{}, value...)}
			want := lineFates(t, byName, r)
			if r.Value = append(protoFrame(id, indexes...), value...); len(value) == 0 {
				continue // an event of zeros may be read from both, and an error shows another value
			}
			got := lineFates(t, byID, r)
			if got != want {
				t.Fatalf("file %d, %v: %x\n%s\nwant\n%s", i, indexes, value, got, want)
			}
			if !strings.Contains(got, "missing") && !strings.Contains(got, "not_protobuf") {
				read++
			}
		}
	}
	if read < files {
		t.Errorf("only %d events were read", read)
	}
}

// FuzzMessageIndexes checks that no bytes after a schema's id make the decoder panic. The chosen message must match one of the
// two ways to count. The event after the indexes must decode as with the name of its message.
func FuzzMessageIndexes(f *testing.F) {
	file := protoFile(f, countedFile)
	set := protoSet(f, file)
	for _, indexes := range [][]int{{0}, {1}, {0, 0}, {0, 1}, {0, 2, 0}, {1, 0}, {1, 1}, {2, 0}, {9}} {
		f.Add(append(protoFrame(7, indexes...)[frameBytes:], readingOfProto...), "")
		f.Add(append(protoFrame(7, indexes...)[frameBytes:], readingOfProto...), "plant.Reading.B")
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "")
	f.Fuzz(func(t *testing.T, behind []byte, name string) {
		o := protoRegistryOptions()
		o.Message = name
		d := newDecoder(t, o)
		id := SchemaID{Number: 7}
		d.Learn(id, Schema{Format: Protobuf, Text: set})
		r := record.Record{Offset: 1, Timestamp: recordTime, Value: append([]byte{0, 0, 0, 0, 7}, behind...)}
		got := lineFates(t, d, r)
		messages := d.schemas[id].proto
		rest, ok := messages.cut(behind)
		if !ok {
			if !strings.Contains(got, "message indexes must follow") {
				t.Fatalf("%x is read as %s", behind, got)
			}
			return
		}
		inAll, inText := chosenBy(file, messages.indexes), chosenBy(file, messages.indexes, "MEntry", "G")
		want := map[protoreflect.FullName]bool{}
		for _, of := range []protoreflect.MessageDescriptor{inAll, inText} {
			if of != nil && (name == "" || string(of.FullName()) == strings.TrimPrefix(name, ".")) {
				want[of.FullName()] = true
			}
		}
		c, err := messages.choose(name)
		switch {
		case (err == nil) != (len(want) == 1), err == nil && !want[c.of.FullName()]:
			t.Fatalf("%v of %q: %v, want one of %v", messages.indexes, name, err, want)
		case err != nil:
			return
		}
		o.Framing, o.Descriptors, o.Message = NoFraming, set, string(c.of.FullName())
		if len(rest) == 0 || hasFrame(rest) { // a letter names the setting of another frame
			return
		}
		byName := newDecoder(t, o)
		r.Value = rest
		if want := lineFates(t, byName, r); got != want {
			t.Fatalf("%x:\n%s\nwant\n%s", behind, got, want)
		}
	})
}
