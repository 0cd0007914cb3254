package e2e_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"waterwheel/e2e/check"
	"waterwheel/e2e/events"
)

// TestProtobufIsStored stores events in Protobuf, with a message of a descriptor set. A value that is no such message is a
// letter, whose redrive restores its bytes.
func TestProtobufIsStored(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	const number = 600
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	var made []events.Event
	for n := range number {
		at := begin.Add(time.Duration(n)*time.Second + 999*time.Microsecond)
		sensor, celsius := fmt.Sprintf("s-%d", n%5), float64(n%3)*21.5
		fields := bson.D{{Key: "n", Value: int32(n)}, {Key: "celsius", Value: celsius}}
		made = append(made, events.Event{Key: []byte("k"), Value: readingInProtobuf(t, at, sensor, uint64(n), celsius), Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{
			Time: at.UnixMilli(), Meta: bson.D{{Key: "sensor", Value: sensor}, {Key: "site", Value: ""}}, Fields: fields,
		}}}}})
	}
	cut := made[1].Value[:len(made[1].Value)-3]
	tooEarly := readingInProtobuf(t, time.Unix(1, 0), "s-9", 1, 0)
	made = append(made,
		events.Event{Key: []byte("k"), Value: cut, Fate: events.Fate{Reason: "not_protobuf"}},
		events.Event{Key: []byte("k"), Value: tooEarly, Fate: events.Fate{Reason: "time_out_of_range"}})
	s.storesWith(made, number, 2, "EVENT_FORMAT", "protobuf", "EVENT_PROTOBUF_FILE", readingDescriptors(t), "EVENT_PROTOBUF_MESSAGE", "plant.Reading",
		"EVENT_TIME_FIELD", "at", "EVENT_META_FIELDS", "sensor,site")

	code, out := s.run("dlq", "list", "--reason", "time_out_of_range", "--output", "json")
	var row struct {
		DeadLetter string `bson:"letter"`
	}
	if err := bson.UnmarshalExtJSON([]byte(strings.Split(out, "\n")[0]), false, &row); err != nil {
		t.Fatalf("dlq list ended with code %d, %v in %s", code, err, out)
	}
	if code, out = s.run("dlq", "show", row.DeadLetter); code != 0 || !strings.Contains(out, `"sensor": "s-9"`) {
		t.Errorf("dlq show ended with code %d, and does not show the event:\n%s", code, out)
	}
	set := s.settings
	s.settings = set.With("EVENT_TIME_FIELD", "time").With("EVENT_META_FIELDS", "")
	if code, out = s.run("check", "--sample", "1000"); code != 3 || !strings.Contains(out, "EVENT_TIME_FIELD=at EVENT_META_FIELDS=sensor") {
		t.Errorf("check ended with code %d, and does not propose time and meta:\n%s", code, out)
	}
	s.settings = set
	found := 0
	for _, r := range s.redriven(len(made), 2)[len(made):] {
		if string(r.Value) == string(cut) || string(r.Value) == string(tooEarly) {
			found++
		}
	}
	if found != 2 {
		t.Errorf(check.Verdict+"%d of two letters went back as they came", found)
	}
}

// readingInProtobuf returns an event of readingDescriptors. It leaves out zero values, as producers do.
func readingInProtobuf(t *testing.T, at time.Time, sensor string, n uint64, celsius float64) []byte {
	stamp, err := proto.Marshal(timestamppb.New(at))
	if err != nil {
		t.Fatal(err)
	}
	value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), sensor)
	value = protowire.AppendBytes(protowire.AppendTag(value, 3, protowire.BytesType), stamp)
	if n != 0 {
		value = protowire.AppendVarint(protowire.AppendTag(value, 4, protowire.VarintType), n)
	}
	if celsius != 0 {
		value = protowire.AppendFixed64(protowire.AppendTag(value, 5, protowire.Fixed64Type), math.Float64bits(celsius))
	}
	return value
}

// readingDescriptors returns the path of a descriptor set with the message plant.Reading.
func readingDescriptors(t *testing.T) string {
	field := func(name string, number int32, of descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: of.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	}
	at := field("at", 3, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	at.TypeName = proto.String(".google.protobuf.Timestamp")
	set := descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto),
		{
			Name: proto.String("reading.proto"), Package: proto.String("plant"), Syntax: proto.String("proto3"), Dependency: []string{"google/protobuf/timestamp.proto"},
			MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Reading"), Field: []*descriptorpb.FieldDescriptorProto{
				field("sensor", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), field("site", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING), at,
				field("n", 4, descriptorpb.FieldDescriptorProto_TYPE_INT32), field("celsius", 5, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE),
			}}},
		},
	}}
	content, err := proto.Marshal(&set)
	path := filepath.Join(t.TempDir(), "reading.binpb")
	if err := errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProtobufOfARegistryIsStored has events of two schemas with message indexes. One schema imports another. Their keys are in
// Avro, with their own schema.
func TestProtobufOfARegistryIsStored(t *testing.T) {
	t.Parallel()
	s, r := newStream(t, 2), newRegistry(t)
	const reading = `syntax = "proto3"; package plant; import "google/protobuf/timestamp.proto"; %s
		message Alarm { string text = 1; message Reading { google.protobuf.Timestamp at = 3; int32 n = 4; double celsius = 5; %s } }`
	r.Put("PROTOBUF", "/schemas/ids/1", fmt.Sprintf(reading, "", ""))
	r.Put("PROTOBUF", "/schemas/ids/2", fmt.Sprintf(reading, `import "plant/state.proto"; message Nothing {}`, `State state = 6;`),
		map[string]any{"name": "plant/state.proto", "subject": "plant-state", "version": 3})
	r.Put("PROTOBUF", "/subjects/plant-state/versions/3", `syntax = "proto3"; package plant; enum State { OFF = 0; ON = 1; }`)
	r.Put("AVRO", "/schemas/ids/3", `"string"`)
	s.settings = s.settings.With("EVENT_FORMAT", "protobuf", "EVENT_TIME_FIELD", "at", "EVENT_META_FROM", "key")
	s.storesByRegistry(r, func(id uint32, at time.Time, n int) events.Event {
		sensor := fmt.Sprintf("s-%d", n%5)
		key := append(binary.AppendVarint([]byte{0, 0, 0, 0, 3}, int64(len(sensor))), sensor...)
		value := append(binary.BigEndian.AppendUint32([]byte{0}, id), 4, byte(id-1)<<1, 0) // the indexes [0 0] or [1 0]
		value = append(value, readingInProtobuf(t, at, "", uint64(n), float64(n%3)*21.5)...)
		fields := bson.D{{Key: "n", Value: int32(n)}, {Key: "celsius", Value: float64(n%3) * 21.5}}
		if id == 2 {
			value = protowire.AppendVarint(protowire.AppendTag(value, 6, protowire.VarintType), 1)
			fields = append(fields, bson.E{Key: "state", Value: "ON"})
		}
		return events.Event{Key: key, Value: value, Fate: events.Fate{Parts: []events.Part{{Reading: &events.Reading{Time: at.UnixMilli(), Meta: sensor, Fields: fields}}}}}
	})
}
