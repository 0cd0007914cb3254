package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"waterwheel/bucketer"
	"waterwheel/config"
	"waterwheel/internal/cli"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
)

// refusedMark is in a measurement that the database of this test refuses.
const refusedMark = "<refuse me>"

// refusingPorts are the ports of the consumer, with a MongoDB server that refuses marked measurements.
type refusingPorts struct{ *ports }

func (p refusingPorts) Open(src timeseries.Source) (pipeline.Log, pipeline.Store) {
	log, store := p.ports.Open(src)
	return log, refusingStore{store}
}

type refusingStore struct{ pipeline.Store }

func (s refusingStore) Send(ctx context.Context, writes []*bucketer.Write) []bucketer.Sent {
	sent := make([]bucketer.Sent, len(writes))
	var passing []*bucketer.Write
	for i, w := range writes {
		if bytes.Contains(w.Document, []byte(refusedMark)) {
			sent[i] = bucketer.Sent{Result: bucketer.Refused, Code: 121, Message: "Document failed validation"}
		} else {
			passing = append(passing, w)
		}
	}
	if len(passing) == 0 {
		return sent
	}
	passed := s.Store.Send(ctx, passing)
	for i := range sent {
		if sent[i].Result != bucketer.Refused {
			sent[i], passed = passed[0], passed[1:]
		}
	}
	return sent
}

// consumeThrough runs a consumer on the servers until the test ends. The options of its workers are changed, and marked
// measurements are refused.
func (s *stage) consumeThrough(change func(*pipeline.Options)) {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	c, err := config.Load(func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	p := newProcess(c, log)
	n := connect.New()
	if err := n.Open(s.t.Context(), c, p.patience(), p.registry); err != nil {
		s.t.Fatal(err)
	}
	o := p.consumer(n)
	o.NewWorker = func(at record.Partition) *pipeline.Worker {
		o := p.worker(n, at)
		change(&o)
		return pipeline.NewWorker(o)
	}
	o.Ports = refusingPorts{o.Ports.(*ports)}
	consumer := pipeline.NewConsumer(o)
	n.Consumer.Store(consumer)
	ctx, stop := context.WithCancel(s.t.Context())
	with := connect.GroupOptions(p.config, log)
	with.Shutdown = time.Second
	membership := group.New(n.Kafka, with, &member{consumer: consumer, log: log, stopping: func() bool { return ctx.Err() != nil }}, p.registry)
	ended := make(chan error, 1)
	go func() { ended <- membership.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("the consumer ended with %v", err)
		}
		n.Close(context.Background())
	})
}

// send produces one record.
func (s *stage) send(value string) {
	s.t.Helper()
	w := &kafkago.Writer{
		Addr: s.admin.Addr, Topic: s.topic, RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond, Transport: s.admin.Transport,
	}
	defer w.Close()
	if err := w.WriteMessages(s.t.Context(), kafkago.Message{Key: []byte("k"), Value: []byte(value)}); err != nil {
		s.t.Fatal(err)
	}
}

// badRecord is a record that must become a letter.
type badRecord struct {
	reason measurement.Reason
	value  string
	path   string // of the wrong field
}

// badEvents returns a record for each reason that JSON can cause, and for the reason of the database.
func badEvents() []badRecord {
	event := func(rest string) string { return `{"time":1700000000,"meta":1` + rest + `}` }
	return []badRecord{
		{measurement.NotJSON, `{"time":1`, ""},
		{measurement.NotObject, `42`, ""},
		{measurement.Empty, `[]`, ""},
		{measurement.MissingTime, `{"meta":1}`, "time"},
		{measurement.BadTime, `{"time":"noon","meta":1}`, "time"},
		{measurement.TimeOutOfRange, `{"time":1,"meta":1}`, "time"},
		{measurement.MissingMeta, `{"time":1700000000}`, "meta"},
		{measurement.BadMeta, `{"time":1700000000,"meta":"` + strings.Repeat("m", 9<<10) + `"}`, "meta"},
		{measurement.BadFieldName, event(`,"x":{"$y":1}`), "x.$y"},
		{measurement.DuplicateField, event(`,"x":{"y":1,"y":2}`), "x.y"},
		{measurement.TooDeep, event(`,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100)), "x" + strings.Repeat(".0", 99)},
		{measurement.TooLarge, event(`,"x":"` + strings.Repeat("x", 64<<10) + `"`), ""},
		{measurement.BadNumber, event(`,"x":1e999`), "x"},
		{measurement.BadUTF8, event(",\"x\":\"\xff\""), "x"},
		{measurement.BadElements, "[" + strings.Repeat("1,", 200) + "1]", ""},
		{measurement.RefusedByDatabase, event(`,"x":"` + refusedMark + `"`), ""},
	}
}

// TestEachReasonIsReadBack makes a letter in Kafka from a real record for every reason, and reads it with "dlq list", "dlq show"
// and "dlq stats". The exception is a batch that cannot be read, because no producer sends one (e2e/hostile does).
func TestEachReasonIsReadBack(t *testing.T) {
	s := newStage(t)
	s.env["DLQ_TOPIC"], s.env["EVENT_MAX_BYTES"] = s.topic+".dlq", "64KiB"
	asBSON, asLines, asRequests, asAvro, asProtobuf, named, compressed, lists, failing := newStage(t), newStage(t), newStage(t), newStage(t), newStage(t), newStage(t), newStage(t), newStage(t), newStage(t)
	for _, other := range []*stage{asBSON, asLines, asRequests, asAvro, asProtobuf, named, compressed, lists, failing} {
		other.env["DLQ_TOPIC"] = s.env["DLQ_TOPIC"]
	}
	asBSON.env["EVENT_FORMAT"] = "bson"
	asLines.env["EVENT_FORMAT"] = "influx"
	asRequests.env["EVENT_FORMAT"] = "otlp"
	asAvro.env["EVENT_FORMAT"] = "avro"
	asAvro.env["EVENT_SCHEMA"] = badEventSchema
	asProtobuf.env["EVENT_FORMAT"], asProtobuf.env["EVENT_PROTOBUF_MESSAGE"] = "protobuf", "google.protobuf.DescriptorProto"
	asProtobuf.env["EVENT_PROTOBUF_FILE"] = ownDescriptors(t)
	named.env["EVENT_FORMAT"], named.env["SCHEMA_REGISTRY_URL"], named.env["SCHEMA_UNKNOWN_WAIT"] = "avro", registryOfTwo(t), "1s"
	compressed.env["EVENT_COMPRESSION"] = "gzip"
	lists.env["EVENT_LIST"] = "readings"

	bad := badEvents()
	for _, r := range bad {
		s.send(r.value)
	}
	s.send(`{"time":1700000000,"meta":1,"x":"good"}`)
	asBSON.send("{}")
	bad = append(bad, badRecord{measurement.NotBSON, "{}", ""})
	asLines.send("cpu v=")
	bad = append(bad, badRecord{measurement.NotInflux, "cpu v=", "fields.v"})
	asRequests.send("\x0a\x05")
	bad = append(bad, badRecord{measurement.NotOTLP, "\x0a\x05", ""})
	asAvro.send("\x02\x02")
	bad = append(bad, badRecord{measurement.NotAvro, "\x02\x02", "meta"})
	asProtobuf.send("\x0a\x05")
	bad = append(bad, badRecord{measurement.NotProtobuf, "\x0a\x05", ""})
	named.send("\x00\x00\x00\x00\x01" + string(binary.AppendVarint(nil, 1_700_000_000)) + "\x02m")
	for reason, value := range map[measurement.Reason]string{measurement.BadSchema: "\x00\x00\x00\x00\x02", measurement.UnknownSchema: "\x00\x00\x00\x00\x03"} {
		named.send(value)
		bad = append(bad, badRecord{reason, value, ""})
	}
	compressed.send("\x1f\x8b\x08")
	bad = append(bad, badRecord{measurement.BadCompression, "\x1f\x8b\x08", ""})
	lists.send(`{"time":1700000000,"meta":1}`)
	bad = append(bad, badRecord{measurement.MissingField, `{"time":1700000000,"meta":1}`, "readings"})
	failing.send(`{"time":1700000000,"meta":1}`)
	bad = append(bad, badRecord{measurement.InternalError, `{"time":1700000000,"meta":1}`, ""})

	s.consumeThrough(func(*pipeline.Options) {})
	asBSON.consumeThrough(func(*pipeline.Options) {})
	asLines.consumeThrough(func(*pipeline.Options) {})
	asRequests.consumeThrough(func(*pipeline.Options) {})
	asAvro.consumeThrough(func(*pipeline.Options) {})
	asProtobuf.consumeThrough(func(*pipeline.Options) {})
	named.consumeThrough(func(*pipeline.Options) {})
	compressed.consumeThrough(func(*pipeline.Options) {})
	lists.consumeThrough(func(*pipeline.Options) {})
	failing.consumeThrough(func(o *pipeline.Options) { o.Decoder = nil }) // this causes a bug, which no record can

	s.env["KAFKA_TOPICS"] = strings.Join([]string{s.topic, asBSON.topic, asLines.topic, asRequests.topic, asAvro.topic, asProtobuf.topic, named.topic, compressed.topic, lists.topic, failing.topic}, ",")
	s.awaitStats(bad)
	for _, r := range bad {
		s.showsDeadLetter(r)
	}
}

// badEventSchema is an Avro schema of events.
const badEventSchema = `{"type":"record","name":"R","fields":[{"name":"time","type":"long"},{"name":"meta","type":"string"}]}`

// ownDescriptors returns the path of a set with the descriptors of descriptors.
func ownDescriptors(t *testing.T) string {
	set := descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)}}
	content, err := proto.Marshal(&set)
	path := filepath.Join(t.TempDir(), "descriptors.binpb")
	if err := errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// registryOfTwo returns the URL of a schema registry. Its schema 1 is one of events, and no event can have its schema 2.
func registryOfTwo(t *testing.T) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := map[string]string{"/schemas/ids/1": badEventSchema, "/schemas/ids/2": `"long"`}[r.URL.Path]
		if !found {
			http.Error(w, `{"error_code":40403,"message":"Schema not found"}`, http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"schema": text})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// awaitStats waits until "dlq stats" counts one letter for each record and reason, and compares the reasons with the complete
// set.
func (s *stage) awaitStats(bad []badRecord) {
	s.t.Helper()
	want := map[string]int64{}
	for _, r := range bad {
		want[string(r.reason)]++
	}
	reasons := slices.DeleteFunc(slices.Clone(measurement.Reasons()), func(r measurement.Reason) bool { return r == measurement.Unreadable })
	for _, reason := range reasons {
		if want[string(reason)] != 1 {
			s.t.Errorf("there are %d records of reason %s", want[string(reason)], reason)
		}
	}
	var stats struct {
		DeadLetters int64            `json:"deadLetters"`
		Reasons     map[string]int64 `json:"reasons"`
	}
	for deadline := time.Now().Add(40 * time.Second); stats.DeadLetters < int64(len(bad)); {
		s.dlq(&stats, "stats")
		if time.Now().After(deadline) {
			s.t.Fatalf("%+v", stats)
		}
	}
	if stats.DeadLetters != int64(len(bad)) || len(stats.Reasons) != len(reasons) {
		s.t.Errorf("%d letters of %d reasons, want %d of %d", stats.DeadLetters, len(stats.Reasons), len(bad), len(reasons))
	}
	for reason, n := range stats.Reasons {
		if n != want[reason] {
			s.t.Errorf("%d letters of reason %q, want %d", n, reason, want[reason])
		}
	}
}

// showsDeadLetter finds a letter by its reason, by its own place and by the place of its record.
func (s *stage) showsDeadLetter(r badRecord) {
	s.t.Helper()
	var row cli.DeadLetterRow
	s.dlq(&row, "list", "--reason", string(r.reason))
	if row.Reason != string(r.reason) || len(row.Message) < 10 || row.Bytes != len(r.value) {
		s.t.Errorf("%s: listed as %+v", r.reason, row)
	}
	for _, place := range []string{row.DeadLetter, row.From} {
		var shown cli.ShownDeadLetter
		s.dlq(&shown, "show", place)
		if shown.DeadLetter != row.DeadLetter || shown.Reason != string(r.reason) || string(shown.Value) != r.value || shown.Path != r.path {
			s.t.Errorf("%s: %s shows reason %q, path %q, %d bytes", r.reason, place, shown.Reason, shown.Path, len(shown.Value))
		}
		if (shown.Now == "") != readableNow(r.reason) {
			s.t.Errorf("%s: the present settings say %q", r.reason, shown.Now)
		}
	}
	code, out, _ := try(s.t, s.env, "dlq", "show", row.From)
	if code != exitDone || !strings.Contains(out, string(r.reason)) {
		s.t.Errorf("%s: exit code %d\n%s", r.reason, code, out)
	}
}

// readableNow reports whether the settings for JSON, without EVENT_LIST, can read the record of a reason.
func readableNow(reason measurement.Reason) bool {
	return slices.Contains([]measurement.Reason{measurement.MissingField, measurement.RefusedByDatabase, measurement.InternalError}, reason)
}

// dlq runs a command and decodes the JSON that it prints.
func (s *stage) dlq(into any, args ...string) {
	s.t.Helper()
	code, stdout, stderr := try(s.t, s.env, append(append([]string{"dlq"}, args...), "--output", "json")...)
	if code != exitDone {
		s.t.Fatalf("%v: exit code %d, %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), into); err != nil {
		s.t.Fatalf("%v: %v in %s", args, err, stdout)
	}
}
