package schemas

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
)

// inRegistry returns a registry's answer with a Protobuf schema and its references. Each reference has the form
// name=subject/version.
func inRegistry(t *testing.T, text string, references ...string) string {
	t.Helper()
	a := answer{Schema: text, Type: typeProtobuf}
	for _, one := range references {
		var r reference
		if _, err := fmt.Sscanf(strings.NewReplacer("=", " ", "/v", " ").Replace(one), "%s %s %d", &r.Name, &r.Subject, &r.Version); err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		a.References = append(a.References, r)
	}
	body, err := json.Marshal(map[string]any{"schema": a.Schema, "schemaType": a.Type, "references": a.References})
	if err != nil {
		t.Fatal(err)
	}
	return "200 " + string(body)
}

// read decodes a Protobuf reading by a schema of the registry, and returns its elements as text. The reading has a time, a meta
// and the encoded fields.
func read(t *testing.T, s measurement.Schema, fields string) string {
	t.Helper()
	d, err := measurement.New(measurement.Options{Format: measurement.Protobuf, Framing: measurement.Confluent, TimeField: "time", MetaField: "meta"})
	if err != nil {
		t.Fatal(err)
	}
	d.Learn(number(1), s)
	value := protowire.AppendVarint([]byte{0, 0, 0, 0, 1, 0, 1 << 3}, 1_700_000_000)
	results, err := d.Decode(record.Record{Timestamp: 1_700_000_000_000, Value: append(append(value, "\x12\x01m"...), fields...)})
	if err != nil || len(results) != 1 || results[0].Err != nil {
		t.Fatalf("%v %v", results, err)
	}
	events := d.Events(record.Record{Value: append(append(value, "\x12\x01m"...), fields...)})
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	return fmt.Sprintf("%q", results[0].Measurement.Elements)
}

// TestProtobufIsCompiled covers references, the files that come with Protobuf and with Confluent's serializers, and options that
// are defined nowhere.
func TestProtobufIsCompiled(t *testing.T) {
	r := newRegistry(t, map[string]string{
		"/schemas/ids/1": inRegistry(t, `syntax = "proto3"; package plant;
			import "plant/air.proto"; import "plant/state.proto"; import "google/protobuf/timestamp.proto"; import "confluent/meta.proto"; import "google/type/latlng.proto";
			option java_package = "com.plant"; option (nobody.has).this = { a: 1 };
			message Reading { option (confluent.message_meta) = { doc: "x" }; int64 time = 1 [(confluent.field_meta) = { params: [ { key: "a", value: "b" } ] }, deprecated = true];
				string meta = 2 [(buf.validate.field).string.min_len = 1]; Air air = 3; State state = 4; google.type.LatLng place = 5; }
			service Readings { rpc Get (Reading) returns (not.There) { option (google.api.http) = { get: "/v1" }; } }`,
			"plant/air.proto=plant-air/v3", "plant/state.proto=state/v1"),
		"/subjects/plant-air/versions/3": inRegistry(t, `syntax = "proto3"; package plant; import public "plant/state.proto"; message Air { double celsius = 1; State state = 2; }`, "plant/state.proto=state/v1"),
		"/subjects/state/versions/1":     inRegistry(t, `syntax = "proto3"; package plant; enum State { OFF = 0; ON = 1; }`),
	})
	c := New(Options{URLs: []string{r.URL}})
	for range 2 {
		a, err := c.Schema(t.Context(), "t", number(1))
		if err != nil || a.Schema.Format != measurement.Protobuf || a.Schema.Reason != "" || !a.KnowsTopic {
			t.Fatalf("%+v %v", a, err)
		}
		if got := read(t, a.Schema, "\x1a\x02\x10\x01\x20\x01"); !strings.Contains(got, `state\x00\x03\x00\x00\x00ON`) || !strings.Contains(got, "celsius") {
			t.Errorf("it is read as %s", got)
		}
	}
	if len(r.asked) != 3 {
		t.Errorf("asked for %q", r.asked)
	}
}

// TestBytesOfASerializer has a schema and records as confluent-kafka 2.16.1 for Python writes them, with the id in a frame and in
// a header. This serializer registers a serialized file. It counts the message of a map's entries before the message In.
func TestBytesOfASerializer(t *testing.T) {
	const schema = "CgdyLnByb3RvEgVwbGFudCIVCgVBbGFybRIMCgR0ZXh0GAEgASgJInYKB1JlYWRpbmcSDgoGbnVtYmVyGAEgASgFEiAKAW0YAiADKAsyFS5wbGFudC5SZWFkaW5nLk1FbnRyeRooCgZNRW50cnkSCwoDa2V5GAEgASgJEg0KBXZhbHVlGAIgASgFOgI4ARoPCgJJbhIJCgF4GAEgASgFYgZwcm90bzM="
	r := newRegistry(t, map[string]string{"/schemas/ids/1": inRegistry(t, schema), "/schemas/guids/c74a2593-8e84-4cb3-a42b-e0b3aad58668": inRegistry(t, schema)})
	c := New(Options{URLs: []string{r.URL}})
	d, err := measurement.New(measurement.Options{
		Format: measurement.Protobuf, Framing: measurement.Confluent, MetaFrom: measurement.MetaFromNone,
		Ask: func(id measurement.SchemaID) (measurement.Schema, error) {
			a, err := c.Schema(t.Context(), "t", id)
			return a.Schema, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ frame, header, value, want string }{
		{"\x00\x00\x00\x00\x01\x00", "\x00", "\x0a\x01a", "{\"text\": \"a\"}"},
		{"\x00\x00\x00\x00\x01\x02\x02", "\x02\x02", "\x08\x07\x12\x05\x0a\x01k\x10\x01", `{"number": {"$numberInt":"7"},"m": {"k": {"$numberInt":"1"}}}`},
		{"\x00\x00\x00\x00\x01\x04\x02\x02", "\x04\x02\x02", "\x08\x05", `{"x": {"$numberInt":"5"}}`},
	} {
		header := record.EncodeHeaders([]record.Header{{Key: "__value_schema_id", Value: []byte("\x01\xc7J%\x93\x8e\x84L\xb3\xa4+\xe0\xb3\xaa\xd5\x86h" + test.header)}})
		for _, one := range []record.Record{{Value: []byte(test.frame + test.value)}, {Value: []byte(test.value), Headers: header}} {
			if events := d.Events(one); len(events) != 1 || bson.Raw(events[0]).String() != test.want {
				_, err := d.Decode(one)
				t.Errorf("%q is read as %v (%v), want %s", one.Value, events, err, test.want)
			}
		}
	}
}

// TestFilesThatSerializersKnow checks that each of these files compiles, and can be imported without a reference.
func TestFilesThatSerializersKnow(t *testing.T) {
	var imports strings.Builder
	for name := range wellKnown {
		fmt.Fprintf(&imports, "import %q;\n", name)
	}
	descriptors, err := compile(t.Context(), `syntax = "proto3";`+imports.String()+`message M { google.type.DateTime d = 1; confluent.type.Decimal e = 2; google.type.Color c = 3; google.type.Month m = 4; }`, nil)
	if err != nil || measurement.CheckMessage(descriptors, "google.type.DateTime") != nil || measurement.CheckMessage(descriptors, "M") != nil {
		t.Errorf("%v", err)
	}
}

// TestProtobufThatCannotBeCompiled checks that the message names the line, and the subject if the error is in a reference.
func TestProtobufThatCannotBeCompiled(t *testing.T) {
	const head = "syntax = \"proto3\";\n"
	for _, test := range []struct {
		says string
		text string
		of   map[string]string // the texts of the references, by subject
	}{
		{"line 2: syntax error", head + `message {`, nil},
		{`line 2: field Reading.x: unknown type Air`, head + `message Reading { Air x = 1; }`, nil},
		{`line 3: it imports "plant/air.proto", which is neither`, head + "message Reading {}\nimport \"plant/air.proto\";", nil},
		{`line 1: it imports "/etc/passwd"`, `syntax = "proto3"; import "/etc/passwd";`, nil},
		{`line 2 of version 1 of "air": field Air.x: unknown type Nothing`, head + `import "air"; message Reading { Air x = 1; }`, map[string]string{"air": head + `message Air { Nothing x = 1; }`}},
		{`line 3 of version 1 of "air": syntax error: unexpected '='`, head + `import "air"; message Reading { Air x = 1; }`, map[string]string{"air": head + "message\n="}},
		{`line 2 of version 1 of "air": it imports "fire"`, head + `import "air";`, map[string]string{"air": head + `import "fire";`}},
		{`line 2 of version 1 of "air": cycle found in imports: "air" -> "air"`, head + `import "air";`, map[string]string{"air": head + `import "air";`}},
		{`refers to version 1 of "air", whose type is AVRO`, head, map[string]string{"air": "avro"}},
		{`more than 30000 statements`, head + "message Reading {" + strings.Repeat(";", maxStatements), nil},
		{`more than 30000 statements`, head, map[string]string{"air": strings.Repeat("a,", maxStatements)}},
		{`more than 1048576 bytes`, head + "// " + strings.Repeat("x", 1<<20), nil},
		{"line 1: message Reading: fields a and b both have the same tag 1", `syntax = "proto3"; message Reading { int32 a = 1; int32 b = 1; }`, nil},
		{"it cannot be compiled: line 1", base64.StdEncoding.EncodeToString(nested(t, 2*deepestFile)), nil},
		{`it cannot be compiled: the schema: field M.f: unknown type .plant.Gone`, base64.StdEncoding.EncodeToString(nested(t, 1)), nil},
		{"nesting depth", head + strings.Repeat("message M {", 9_000) + strings.Repeat("}", 9_000), nil},
		{"it cannot be compiled: line 1", `syntax = "proto3"; option java_package = ` + strings.Repeat("{a ", 20_000) + strings.Repeat("}", 20_000) + `;`, nil},
		{"it cannot be compiled: line 1", `edition = "2999"; message Reading {}`, nil},
	} {
		answers := map[string]string{}
		var references []string
		for subject, text := range test.of {
			references = append(references, subject+"="+subject+"/v1")
			answers["/subjects/"+subject+"/versions/1"] = inRegistry(t, text)
			if text == "avro" {
				answers["/subjects/"+subject+"/versions/1"] = `200 {"schema":"\"int\""}`
			}
		}
		answers["/schemas/ids/1"] = inRegistry(t, test.text, references...)
		r := newRegistry(t, answers)
		a, err := New(Options{URLs: []string{r.URL}}).Schema(t.Context(), "t", number(1))
		if err != nil || a.Schema.Reason != measurement.BadSchema || !strings.Contains(a.Schema.Detail, test.says) || len(a.Schema.Detail) > 1000 {
			t.Errorf("%.200q %.100q: %q %v, want %s", test.text, test.of, a.Schema.Detail, err, test.says)
		}
	}
}

// nested returns a serialized file with messages nested to a depth. The outermost message has a field of an unknown type.
func nested(t *testing.T, depth int) []byte {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: proto.String("M")}
	for range depth {
		m = &descriptorpb.DescriptorProto{Name: proto.String("M"), NestedType: []*descriptorpb.DescriptorProto{m}}
	}
	m.Field = []*descriptorpb.FieldDescriptorProto{{
		Name: proto.String("f"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String(".plant.Gone"),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}}
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorProto{Name: proto.String("deep.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{m}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestHostileSchemasAreBounded checks that each schema within the bounds takes bounded memory to compile.
func TestHostileSchemasAreBounded(t *testing.T) {
	fill := func(line string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, line, i+1)
		}
		return b.String()
	}
	const most = maxStatements/2 - 10
	for name, text := range map[string]string{
		"messages": `syntax = "proto3";` + fill("message M%[1]d{}", 2*most), "symbols": `syntax = "proto3"; enum E { A = 0;` + fill("A%[1]d=%[1]d;", 2*most) + "}",
		"maps": `syntax = "proto3"; message M {` + fill("map<int32,M> a%[1]d=%[1]d;", most) + "}", "strings": `syntax = "proto3"; option java_package = ` + fill(`"a%d"`, 100_000) + ";",
		"options": `syntax = "proto3"; option (a) = ` + strings.Repeat("{a ", maxStatements-10) + strings.Repeat("}", maxStatements-10) + ";", "lists": `syntax = "proto3"; option (a) = {a: ` + strings.Repeat("[", 300_000) + strings.Repeat("]", 300_000) + "};",
		"names": `syntax = "proto3"; message M { ` + strings.Repeat("a.", 300_000) + "b x = 1; }",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = compile(t.Context(), text, nil)
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 300 {
			t.Errorf("%s: %d MiB", name, used)
		} else {
			t.Logf("%s: %d MiB of %d bytes", name, used, len(text))
		}
	}
}

// FuzzCompile checks that no text makes the compiler panic, and that a Decoder can use every compiled schema.
func FuzzCompile(f *testing.F) {
	for _, text := range wellKnown {
		f.Add(text)
	}
	f.Add(base64.StdEncoding.EncodeToString([]byte("\x0a\x01r\x22\x03\x0a\x01M")))
	f.Add(`syntax = "proto2"; message R { required group G = 1 { optional E e = 2 [default = A]; } extensions 100 to max; enum E { A = 1; } } extend R { optional R r = 100; }`)
	f.Add(`edition = "2023"; option features.field_presence = IMPLICIT; message R { map<string, R> m = 1; oneof o { string s = 2; R r = 3; } reserved 5; }`)
	f.Fuzz(func(t *testing.T, text string) {
		descriptors, err := compile(t.Context(), text, nil)
		if err != nil {
			return
		}
		d, err := measurement.New(measurement.Options{Format: measurement.Protobuf, Framing: measurement.Confluent, MetaFrom: measurement.MetaFromNone})
		if err != nil {
			t.Fatal(err)
		}
		d.Learn(number(1), measurement.Schema{Format: measurement.Protobuf, Text: descriptors})
		_, err = d.Decode(record.Record{Value: []byte{0, 0, 0, 0, 1, 0}})
		if err != nil && strings.Contains(err.Error(), "set cannot be used") {
			t.Errorf("%q: %v", text, err)
		}
	})
}
