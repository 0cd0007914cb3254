package config

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestTopicsHaveTheirOwnDescriptors checks that a binary file is read unchanged, even if it ends with a newline, and that its
// path is shown.
func TestTopicsHaveTheirOwnDescriptors(t *testing.T) {
	set := descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)}}
	content, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, "\x52\x01\n"...) // a field that does not exist in a set
	path, also := writeFile(t, string(content)), writeFile(t, string(content))
	settings := `
KAFKA_BROKERS: kafka-1:9092
KAFKA_TOPICS: [general, own, plain]
MONGODB_URI: mongodb://db
EVENT_FORMAT: protobuf
EVENT_PROTOBUF_FILE: ` + path + `
EVENT_PROTOBUF_MESSAGE: google.protobuf.FileDescriptorProto
topics:
  own:
    EVENT_PROTOBUF_FILE: ` + also + `
    EVENT_PROTOBUF_MESSAGE: google.protobuf.DescriptorProto
  plain:
    EVENT_FORMAT: json
`
	c, err := onlyFrom(t, settings)
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{
		"general": "protobuf google.protobuf.FileDescriptorProto " + path, "own": "protobuf google.protobuf.DescriptorProto " + also,
		"plain": "json google.protobuf.FileDescriptorProto " + path,
	} {
		e := c.ForTopic(topic).Event
		if got := e.Format + " " + e.Message + " " + e.Descriptors.Path; got != want || e.Descriptors.Bytes != string(content) {
			t.Errorf("%s: %s with %d bytes, want %s with %d", topic, got, len(e.Descriptors.Bytes), want, len(content))
		}
	}
	for _, s := range c.Settings() {
		if s.Name == "EVENT_PROTOBUF_FILE" && s.Value != path || s.Name == "EVENT_PROTOBUF_FILE[own]" && s.Value != also {
			t.Errorf("%s is shown as %.80q", s.Name, s.Value)
		}
	}
	for _, test := range []struct{ name, value, want string }{
		{"EVENT_FRAMING", "confluent", "EVENT_FRAMING=confluent: does not fit EVENT_FORMAT=protobuf"},
		{"EVENT_LIST", "x", "EVENT_LIST=x: cannot be combined with EVENT_FORMAT=protobuf"},
		{"EVENT_TIME_EXACT", "ns", "EVENT_TIME_EXACT=ns: cannot be combined with EVENT_FORMAT=protobuf"},
	} {
		if _, err := onlyFrom(t, settings, test.name, test.value); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
	if _, err := onlyFrom(t, strings.Replace(settings, "google.protobuf.DescriptorProto", "a.B", 1)); err == nil || !strings.Contains(err.Error(), "topic own") {
		t.Errorf("a message of a topic that is none: %v", err)
	}
}

func TestPlaces(t *testing.T) {
	c, err := load(with("KAFKA_SKIP_CORRUPT", "events/3/182, a.b-c/0/9223372036854775807"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Kafka.SkipCorrupt.String(); got != "events/3/182,a.b-c/0/9223372036854775807" {
		t.Error(got)
	}
	for _, text := range []string{"events", "events/3", "events/3/182/1", "/3/182", "events/x/1", "events/3/-1", "events/3/182,", "events/2147483648/1"} {
		if c, err := load(with("KAFKA_SKIP_CORRUPT", text)); err == nil || strings.Contains(err.Error(), "SkipCorrupt") {
			t.Errorf("%s: %v, %v", text, c.Kafka.SkipCorrupt, err)
		}
	}
}
