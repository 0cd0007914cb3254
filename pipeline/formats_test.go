package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/twmb/avro"
	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// The event of TestFormatsMakeTheSameBuckets in Avro and in Protobuf.
const (
	formatsAvro = `{"type":"record","name":"Event","fields":[
		{"name":"name","type":"string"},
		{"name":"tags","type":{"type":"record","name":"Tags","fields":[{"name":"host","type":"string"},{"name":"site","type":"string"}]}},
		{"name":"fields","type":{"type":"record","name":"Fields","fields":[
			{"name":"temp","type":"double"},{"name":"count","type":"int"},{"name":"bytes","type":"long"},{"name":"up","type":"boolean"},{"name":"state","type":"string"}]}},
		{"name":"timestamp","type":"long"}]}`
	formatsProto = `syntax = "proto3";
		message Tags { string host = 1; string site = 2; }
		message Fields { double temp = 1; int32 count = 2; int64 bytes = 3; bool up = 4; string state = 5; }
		message Event { string name = 1; Tags tags = 2; Fields fields = 3; int64 timestamp = 4; }`
)

// formatsEvent is a measurement in the shape of Telegraf's JSON.
type formatsEvent struct {
	Name string `json:"name" avro:"name"`
	Tags struct {
		Host string `json:"host" avro:"host"`
		Site string `json:"site" avro:"site"`
	} `json:"tags" avro:"tags"`
	Fields struct {
		Temp  float64 `json:"temp" avro:"temp"`
		Count int32   `json:"count" avro:"count"`
		Bytes int64   `json:"bytes" avro:"bytes"`
		Up    bool    `json:"up" avro:"up"`
		State string  `json:"state" avro:"state"`
	} `json:"fields" avro:"fields"`
	Timestamp int64 `json:"timestamp" avro:"timestamp"` // in milliseconds
}

// line returns the event in the line protocol.
func (e *formatsEvent) line() string {
	return fmt.Sprintf("%s,host=%s,site=%s temp=%v,count=%di,bytes=%di,up=%v,state=%q %d", e.Name, e.Tags.Host, e.Tags.Site,
		e.Fields.Temp, e.Fields.Count, e.Fields.Bytes, e.Fields.Up, e.Fields.State, e.Timestamp*int64(time.Millisecond))
}

// formatsMessage compiles formatsProto. It returns the descriptor set, and an empty event.
func formatsMessage(t *testing.T) (set string, event *dynamicpb.Message) {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"event.proto": formatsProto})}}
	files, err := compiler.Compile(t.Context(), "event.proto")
	if err != nil {
		t.Fatal(err)
	}
	text, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(files[0])}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text), dynamicpb.NewMessage(files[0].Messages().ByName("Event"))
}

// TestFormatsMakeTheSameBuckets stores 100,000 measurements of 200 series as JSON, Avro, Protobuf and lines. All writes must be
// the same, but for the _id of the buckets.
func TestFormatsMakeTheSameBuckets(t *testing.T) {
	const number, series, each = 100_000, 200, 5_000
	collection, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	paths, _ := measurement.DefaultPaths(measurement.Influx)
	set, message := formatsMessage(t)
	schema := avro.MustParse(formatsAvro)
	type way struct {
		format  measurement.Format
		encode  func(e *formatsEvent, text []byte) ([]byte, error) // text is the event as JSON
		decoder *measurement.Decoder
		catalog *bucketer.Catalog
	}
	ways := []*way{
		{format: measurement.JSON, encode: func(_ *formatsEvent, text []byte) ([]byte, error) { return text, nil }},
		{format: measurement.Avro, encode: func(e *formatsEvent, _ []byte) ([]byte, error) { return schema.AppendEncode(nil, e) }},
		{format: measurement.Protobuf, encode: func(_ *formatsEvent, text []byte) ([]byte, error) {
			proto.Reset(message)
			if err := protojson.Unmarshal(text, message); err != nil {
				return nil, err
			}
			return proto.MarshalOptions{Deterministic: true}.Marshal(message)
		}},
		{format: measurement.Influx, encode: func(e *formatsEvent, _ []byte) ([]byte, error) { return []byte(e.line()), nil }},
	}
	for _, w := range ways {
		o := paths
		o.Format, o.StoredTime, o.StoredMeta = w.format, "time", "meta"
		switch w.format {
		case measurement.Avro:
			o.Schema = formatsAvro
		case measurement.Protobuf:
			o.Descriptors, o.Message = set, "Event"
		}
		if w.decoder, err = measurement.New(o); err != nil {
			t.Fatal(err)
		}
		w.catalog = bucketer.New(bucketer.Options{Collection: collection, Limits: timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}, DeltaMax: 16})
	}
	random := rand.New(rand.NewPCG(1, 2))
	stored, writes := 0, 0
	for i := range number {
		var e formatsEvent
		e.Name, e.Tags.Host, e.Tags.Site = "air", fmt.Sprintf("sensor-%04d", random.IntN(series)), "a1"
		e.Fields.Temp, e.Fields.Count, e.Fields.Bytes = (float64(random.IntN(600))+0.5)/8, random.Int32N(9)-4, 1<<33+random.Int64N(1e6)
		e.Fields.Up, e.Fields.State = random.IntN(2) == 0, []string{"", "on", "größer"}[random.IntN(3)]
		e.Timestamp = 1_700_000_000_000 + int64(i)*1000 - random.Int64N(90_000)
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ways {
			value, err := w.encode(&e, text)
			if err != nil {
				t.Fatal(w.format, err)
			}
			results, err := w.decoder.Decode(record.Record{Offset: int64(i), Timestamp: e.Timestamp, Value: value})
			if err != nil || len(results) != 1 || results[0].Err != nil {
				t.Fatalf("%v %q: %v %v", w.format, value, results, err)
			}
			if err := w.catalog.Insert(&results[0].Measurement); err != nil {
				t.Fatal(err)
			}
		}
		if i%each != each-1 {
			continue
		}
		var flushes []*bucketer.Flush
		for _, w := range ways {
			flushes = append(flushes, w.catalog.Prepare(0))
		}
		want := flushes[0]
		writes, stored = writes+len(want.Writes), stored+want.Measurements
		for k, flush := range flushes {
			if len(flush.Writes) != len(want.Writes) {
				t.Fatalf("%v makes %d writes, JSON %d", ways[k].format, len(flush.Writes), len(want.Writes))
			}
			for j, write := range flush.Writes {
				if !bytes.Equal(withoutID(t, write.Document), withoutID(t, want.Writes[j].Document)) {
					t.Fatalf("%v writes\n%s\nJSON\n%s", ways[k].format, write.Document, want.Writes[j].Document)
				}
			}
		}
		for k, flush := range flushes {
			ways[k].catalog.Finish(flush, make([]bucketer.Outcome, len(flush.Writes)), 0)
		}
	}
	if stored != number || writes < series*number/each {
		t.Errorf("%d of %d measurements are in %d writes", stored, number, writes)
	}
}

// withoutID returns a document without its _id.
func withoutID(t *testing.T, document bson.Raw) []byte {
	t.Helper()
	elements, err := document.Elements()
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, e := range elements {
		if e.Key() != "_id" {
			out = append(out, e...)
		}
	}
	return out
}
