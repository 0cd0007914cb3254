package measurement

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"waterwheel/internal/record"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// exampleEvent has 150 bytes and five numeric fields.
const exampleEvent = `{"time":"2023-11-14T22:13:20.123Z","meta":{"site":"a1","host":"sensor-0042"},"temp":21.375,` +
	`"humidity":47,"pressure":1013.25,"battery":3.71,"rssi":-67}`

// benchmarkDecode decodes the values in turns. It also reports the processor time per value, which is steadier than the clock on
// a busy machine.
func benchmarkDecode(b *testing.B, o Options, values ...string) {
	b.Helper()
	d := newDecoder(b, o)
	records := make([]record.Record, len(values))
	bytes := 0
	for i, value := range values {
		records[i] = record.Record{Timestamp: recordTime, Value: []byte(value)}
		bytes += len(value)
	}
	decode := func(i int) {
		if _, err := d.Decode(records[i%len(records)]); err != nil {
			b.Fatal(err)
		}
	}
	for i := range records {
		decode(i)
	}
	b.SetBytes(int64(bytes / len(values)))
	b.ReportAllocs()
	b.ResetTimer()
	start := processorTime(b)
	for i := range b.N {
		decode(i)
	}
	b.ReportMetric(float64((processorTime(b)-start).Nanoseconds())/float64(b.N), "cpu-ns")
}

func BenchmarkDecode(b *testing.B) {
	const relaxed = `{"time":{"$date":"2023-11-14T22:13:20.123Z"},"meta":{"host":"sensor-0042","site":"a1"},"temp":21.375,` +
		`"humidity":47,"pressure":1013.25,"battery":3.71,"rssi":-67}`
	const canonical = `{"time":{"$date":{"$numberLong":"1700000000123"}},"meta":{"site":"a1","host":"sensor-0042"},` +
		`"temp":{"$numberDouble":"21.375"},"humidity":{"$numberInt":"47"},"pressure":1013.25,"battery":3.71,"rssi":-67}`
	const flat = `{"time":1700000000123,"meta":"sensor-0042","temp.in":21.375,"temp.out":19.5,"pressure":1013.25,"battery":3.71,"rssi":-67}`
	benchmarks := []struct {
		name   string
		format Format
		values []string
	}{
		{"json", JSON, []string{exampleEvent}},
		{"values", JSON, variedEvents(false)},
		{"order", JSON, variedEvents(true)},
		{"shapes", JSON, []string{exampleEvent, `{"time":1700000000123,"meta":"door-7","open":true}`, `{"meta":"pump-7","power":1200.5,"flow":{"in":3.5,"out":3.25},"time":1700000000123}`}},
		{"nested", JSON, []string{`{"time":1700000000123,"meta":{"site":{"name":"a1","floor":2},"host":"sensor-0042"},"air":{"temp":21.375,"humidity":47,"pressure":1013.25},"power":{"battery":3.71,"rssi":-67}}`}},
		{"extjson", ExtJSON, []string{canonical}},
		{"extjson-relaxed", ExtJSON, []string{relaxed}},
		{"bson", BSON, valuesInBSON(b, exampleEvent)},
		{"bson-date", BSON, valuesInBSON(b, relaxed)},
		{"bson-values", BSON, valuesInBSON(b, variedEvents(false)...)},
		{"bson-order", BSON, valuesInBSON(b, variedEvents(true)...)},
		{"bson-dotted", BSON, valuesInBSON(b, flat)},
		{"dotted", JSON, []string{flat}},
		{"avro", Avro, []string{string(exampleInAvro("sensor-0042", 21.375))}},
		{"avro-values", Avro, variedAvro()},
		{"protobuf", Protobuf, []string{string(exampleInProto("sensor-0042", 21.375))}},
		{"protobuf-values", Protobuf, variedProto()},
		{"protobuf-registry", Protobuf, []string{string(protoFrame(7, 1)) + string(exampleInProto("sensor-0042", 21.375))}},
		{"protobuf-registry-first", Protobuf, []string{string(protoFrame(7, 0)) + string(exampleInProto("sensor-0042", 21.375))}},
		{"line", Influx, []string{exampleLine + "\n"}},
		{"line-values", Influx, variedLines()},
	}
	for _, benchmark := range benchmarks {
		b.Run(benchmark.name, func(b *testing.B) {
			o := plainOptions
			o.Format = benchmark.format
			switch {
			case o.Format == Influx:
				o, _ = DefaultPaths(Influx)
				o.Format, o.StoredTime, o.StoredMeta = Influx, "time", "meta"
			case o.Format == Avro:
				o.Schema = exampleSchema
			case strings.HasPrefix(benchmark.name, "protobuf-registry"):
				source := exampleProto
				if strings.HasSuffix(benchmark.name, "-first") {
					source = strings.Replace(source, metaProto, "", 1) + metaProto
				}
				set := protoSet(b, protoFile(b, source))
				o.Framing, o.Ask = Confluent, func(SchemaID) (Schema, error) { return Schema{Format: Protobuf, Text: set}, nil }
			case o.Format == Protobuf:
				o.Descriptors, o.Message = protoSet(b, protoFile(b, exampleProto)), "Event"
			}
			benchmarkDecode(b, o, benchmark.values...)
		})
	}
}

// valuesInBSON converts events in relaxed Extended JSON to BSON.
func valuesInBSON(b *testing.B, events ...string) (values []string) {
	b.Helper()
	for _, event := range events {
		var raw bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(event), false, &raw); err != nil {
			b.Fatal(err)
		}
		values = append(values, string(raw))
	}
	return values
}

// variedEvents returns events like exampleEvent with other values. With shuffled their names are in different orders.
func variedEvents(shuffled bool) (events []string) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		members := []string{
			fmt.Sprintf(`"time":"2023-11-14T22:%02d:%02d.%03dZ"`, random.IntN(60), random.IntN(60), random.IntN(1000)),
			fmt.Sprintf(`"meta":{"site":"a%d","host":"sensor-%04d"}`, random.IntN(10), random.IntN(10000)),
			fmt.Sprintf(`"temp":%.3f`, random.Float64()*60-20),
			fmt.Sprintf(`"humidity":%d`, random.IntN(100)),
			fmt.Sprintf(`"pressure":%.2f`, 900+random.Float64()*200),
			fmt.Sprintf(`"battery":%.2f`, 3+random.Float64()),
			fmt.Sprintf(`"rssi":-%d`, 10+random.IntN(90)),
		}
		if shuffled {
			random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		}
		events = append(events, "{"+strings.Join(members, ",")+"}")
	}
	return events
}

// exampleSchema is the schema of exampleEvent in Avro.
const exampleSchema = `{"type":"record","name":"Event","fields":[{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"meta","type":{"type":"record","name":"Meta","fields":[{"name":"site","type":"string"},{"name":"host","type":"string"}]}},
	{"name":"temp","type":"double"},{"name":"humidity","type":"int"},{"name":"pressure","type":["null","double"]},{"name":"battery","type":"double"},{"name":"rssi","type":"int"}]}`

// exampleInAvro returns exampleEvent in Avro.
func exampleInAvro(host string, temp float64) []byte {
	double := func(b []byte, f float64) []byte {
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	out := append(binary.AppendVarint(nil, 1_700_000_000_123), "\x04a1"...)
	out = append(binary.AppendVarint(out, int64(len(host))), host...)
	out = append(binary.AppendVarint(double(out, temp), 47), 2)
	return binary.AppendVarint(double(double(out, 1013.25), 3.71), -67)
}

// variedAvro returns events like exampleInAvro with other values.
func variedAvro() (events []string) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		events = append(events, string(exampleInAvro(fmt.Sprintf("sensor-%04d", random.IntN(10000)), random.Float64()*60-20)))
	}
	return events
}

// exampleProto is the file of exampleEvent in Protobuf, and metaProto the message of its meta.
const (
	metaProto    = `message Meta { string site = 1; string host = 2; }`
	exampleProto = `syntax = "proto3"; import "google/protobuf/timestamp.proto";` + metaProto + `
	message Event { google.protobuf.Timestamp time = 1; Meta meta = 2; double temp = 3; int32 humidity = 4; optional double pressure = 5; double battery = 6; sint32 rssi = 7; }`
)

// exampleInProto returns exampleEvent in Protobuf.
func exampleInProto(host string, temp float64) []byte {
	out := append(wireBytes(1, string(wireTime(1_700_000_000, 123_000_000))), wireBytes(2, string(wireBytes(1, "a1"))+string(wireBytes(2, host)))...)
	out = append(append(out, wireFixed64(3, math.Float64bits(temp))...), wireVarint(4, 47)...)
	out = append(append(out, wireFixed64(5, math.Float64bits(1013.25))...), wireFixed64(6, math.Float64bits(3.71))...)
	return append(out, wireVarint(7, 133)...) // -67
}

// variedProto returns events like exampleInProto with other values.
func variedProto() (events []string) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		events = append(events, string(exampleInProto(fmt.Sprintf("sensor-%04d", random.IntN(10000)), random.Float64()*60-20)))
	}
	return events
}

// exampleLine is exampleEvent as a line.
const exampleLine = `air,host=sensor-0042,site=a1 temp=21.375,humidity=47i,pressure=1013.25,battery=3.71,rssi=-67i 1700000000123000000`

// variedLines returns lines like exampleLine with other values.
func variedLines() (lines []string) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		lines = append(lines, fmt.Sprintf("air,host=sensor-%04d,site=a%d temp=%.3f,humidity=%di,pressure=%.2f,battery=%.2f,rssi=-%di %d\n",
			random.IntN(10000), random.IntN(10), random.Float64()*60-20, random.IntN(100), 900+random.Float64()*200, 3+random.Float64(),
			10+random.IntN(90), 1_700_000_000_000_000_000+random.Int64N(3600e9)))
	}
	return lines
}

// BenchmarkDecodeOTLP decodes requests of a thousand data points of ten metrics. Each point holds the five values of an event, in
// two of its attributes and its value.
func BenchmarkDecodeOTLP(b *testing.B) {
	const points, metrics = 1000, 10
	var list []string
	for m := range metrics {
		var data []string
		for i := range points / metrics {
			data = append(data, fmt.Sprintf(`{"attributes":[{"key":"host","value":{"stringValue":"sensor-%04d"}},{"key":"site","value":{"stringValue":"a%d"}}],"timeUnixNano":"%d","asDouble":%d.375}`,
				i, i%10, 1_700_000_000_123_000_000+i, i))
		}
		list = append(list, fmt.Sprintf(`{"name":"metric.%d","unit":"1","gauge":{"dataPoints":[%s]}}`, m, strings.Join(data, ",")))
	}
	request := requestOf(list...)
	for format, value := range map[Format]string{OTLP: inProtobuf(b, request), OTLPJSON: request} {
		b.Run(string(format), func(b *testing.B) {
			start := processorTime(b)
			benchmarkDecode(b, otlpOptions(format), value)
			b.ReportMetric(float64((processorTime(b)-start).Nanoseconds())/float64(b.N*points), "cpu-ns/point")
		})
	}
}

func BenchmarkDecodePaths(b *testing.B) {
	for name, r := range pathBenchmarks(b) {
		b.Run(name, func(b *testing.B) { benchmarkDecode(b, r.options, string(r.record.Value)) })
	}
}

func BenchmarkDecodeArray(b *testing.B) {
	const events = 100
	benchmarkDecode(b, plainOptions, "["+strings.Join(variedEvents(false)[:events], ",")+"]")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}

// BenchmarkDecodeShapes decodes events that stages change. For comparison it decodes an array of the same events.
func BenchmarkDecodeShapes(b *testing.B) {
	var readings, events []string
	for i := range 10 {
		reading := fmt.Sprintf(`"ts":%d,"celsius":%d.5,"humidity":%d`, 1_700_000_000_250+i*1000, 20+i, 40+i)
		readings = append(readings, "{"+reading+"}")
		events = append(events, `{"device":"d-7","site":"north",`+reading+"}")
	}
	o := Options{TimeField: "ts", MetaFields: []string{"device", "site"}}
	list := o
	list.List = []string{"readings"}
	body := o
	body.Parse = []string{"body"}
	named := o
	named.FieldName, named.FieldValue = "name", "value"
	for _, test := range []struct {
		name    string
		options Options
		value   string
	}{
		{"array", o, "[" + strings.Join(events, ",") + "]"},
		{"lines", o, strings.Join(events, "\n")},
		{"list", list, `{"device":"d-7","site":"north","readings":[` + strings.Join(readings, ",") + `]}`},
		{"text", body, `{"device":"d-7","site":"north","ts":1700000000250,"body":"{\"celsius\":21.5,\"humidity\":40}"}`},
		{"tall", named, `{"device":"d-7","site":"north","ts":1700000000250,"name":"celsius","value":21.5}`},
	} {
		b.Run(test.name, func(b *testing.B) { benchmarkDecode(b, test.options, test.value) })
	}
}
