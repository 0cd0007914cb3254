package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/connect"
	"waterwheel/internal/record"
)

// TestProtobufOfTheDocumentsIsTrue checks that the file of docs/events.md, its event and its settings make the documented
// measurement. Without the last settings check must propose them.
func TestProtobufOfTheDocumentsIsTrue(t *testing.T) {
	block := avroBlocks(t, "Protobuf")
	reading, value := protoOfDocuments(t, block)
	set := descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(reading.Imports().Get(0)), protodesc.ToFileDescriptorProto(reading),
	}}
	descriptors, err := proto.Marshal(&set)
	file := filepath.Join(t.TempDir(), "reading.binpb")
	if err := errors.Join(err, os.WriteFile(file, descriptors, 0o600)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for setting := range strings.FieldsSeq(block(5)) {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	env["EVENT_PROTOBUF_FILE"] = file
	sample := func(env map[string]string) checkView {
		code, stdout, stderr := feed(t, env, string(value), "check", "--sample", "-", "--output", "json")
		var view checkView
		if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
		}
		return view
	}
	s := sample(env).Samples[0]
	if s.Measurements != 1 || compact(t, s.Examples[0]) != compact(t, []byte(block(7))) {
		t.Errorf("%d measurements, %s, want %s", s.Measurements, s.Examples, block(7))
	}
	without := sample(map[string]string{"EVENT_FORMAT": "protobuf", "EVENT_PROTOBUF_FILE": file, "EVENT_PROTOBUF_MESSAGE": env["EVENT_PROTOBUF_MESSAGE"]}).Samples[0]
	_, wanted, _ := strings.Cut(block(5), ".Reading ")
	if without.Proposal == nil || !strings.HasSuffix(without.Proposal.Line(), wanted) {
		t.Errorf("proposed is %+v, want %s", without.Advice, wanted)
	}
}

// protoOfDocuments compiles the schema of a chapter, and encodes its event.
func protoOfDocuments(t *testing.T, block func(int) string) (protoreflect.FileDescriptor, []byte) {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"reading.proto": block(1)}),
	})}
	files, err := compiler.Compile(t.Context(), "reading.proto")
	if err != nil {
		t.Fatal(err)
	}
	event := dynamicpb.NewMessage(files[0].Messages().ByName("Reading"))
	if err := protojson.Unmarshal([]byte(block(3)), event); err != nil {
		t.Fatal(err)
	}
	value, err := proto.Marshal(event)
	if err != nil || bytes.ContainsAny(value, "\n") {
		t.Fatalf("%q %v: an event of a line has no line end", value, err)
	}
	return files[0], value
}

// TestProtobufOfARegistryIsTrue puts the schema of docs/events.md into a registry. Its event and its settings make the documented
// measurement, and check proposes the settings. Keys are read by their schema with the settings of the next chapter.
func TestProtobufOfARegistryIsTrue(t *testing.T) {
	block := avroBlocks(t, "Protobuf with a schema registry")
	_, value := protoOfDocuments(t, block)
	registry := newRegistry(t, map[string]any{"schema": block(1), "schemaType": "PROTOBUF"}, map[string]any{
		"schema": `{"type":"record","name":"Key","fields":[{"name":"site","type":"string"}]}`,
	})
	framed := "\x00\x00\x00\x00\x07\x02\x02" + string(value)
	settings := func(line string) map[string]string {
		env := map[string]string{}
		for setting := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(setting, "=")
			env[name] = value
		}
		env["SCHEMA_REGISTRY_URL"] = registry.URL
		return env
	}
	sample := func(line string) check.Sample {
		code, stdout, stderr := feed(t, settings(line), framed, "check", "--sample", "-", "--output", "json")
		var view checkView
		if err := json.Unmarshal([]byte(stdout), &view); err != nil || len(view.Samples) != 1 {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
		}
		return view.Samples[0]
	}
	if s := sample(block(5)); s.Measurements != 1 || compact(t, s.Examples[0]) != compact(t, []byte(block(7))) {
		t.Errorf("%d measurements, %s, want %s", s.Measurements, s.Examples, block(7))
	}
	wanted := strings.Replace(block(5), " SCHEMA_REGISTRY_URL=http://registry:8081", "", 1)
	for line, letter := range map[string]string{"": "", "EVENT_FORMAT=protobuf": "", "EVENT_FORMAT=avro": "its type is Protobuf, but EVENT_FORMAT=avro reads Avro: set EVENT_FORMAT=protobuf"} {
		s := sample(line)
		if s.Proposal == nil || s.Proposal.Line() != wanted {
			t.Errorf("with %q proposed is %+v, want %s", line, s.Advice, wanted)
		}
		if letter != "" && (len(s.Bad) != 1 || !strings.Contains(s.Bad[0].Example, letter)) {
			t.Errorf("with %q the letters are %+v", line, s.Bad)
		}
	}

	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, keys, _ := strings.Cut(string(page), "\n## Keys with a schema registry\n")
	_, keys, _ = strings.Cut(keys, "```sh\n")
	keys, _, _ = strings.Cut(keys, "\n")
	env := settings(keys)
	c, err := config.LoadEvents(func(name string) (string, bool) { value, found := env[name]; return value, found }, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := connect.Registry(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	decoder, _, err := connect.NewAskingDecoder(t.Context(), c, asked)
	if err != nil {
		t.Fatal(err)
	}
	results, err := decoder.Decode(record.Record{Timestamp: 1_772_366_400_000, Key: []byte("\x00\x00\x00\x00\x08\x0anorth"), Value: []byte(framed)})
	if err != nil || len(results) != 1 || results[0].Measurement.Meta.String() != `{"sensor": "s-17","site": "north"}` {
		t.Errorf("%s: %v %v", keys, results, err)
	}
}
