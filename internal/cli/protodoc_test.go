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
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// TestProtobufOfTheDocumentsIsTrue: the file of docs/events.md, its event and its settings make the measurement that is there, and
// without the last settings check proposes them.
func TestProtobufOfTheDocumentsIsTrue(t *testing.T) {
	block := avroBlocks(t, "Protobuf")
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"reading.proto": block(1)}),
	})}
	files, err := compiler.Compile(t.Context(), "reading.proto")
	if err != nil {
		t.Fatal(err)
	}
	set := descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(files[0].Imports().Get(0)), protodesc.ToFileDescriptorProto(files[0]),
	}}
	descriptors, err := proto.Marshal(&set)
	file := filepath.Join(t.TempDir(), "reading.binpb")
	if err := errors.Join(err, os.WriteFile(file, descriptors, 0o600)); err != nil {
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
