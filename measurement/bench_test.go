package measurement

import (
	"encoding/json"
	"testing"

	"waterwheel/record"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// exampleEvent has 150 bytes and five numeric fields.
const exampleEvent = `{"time":"2023-11-14T22:13:20.123Z","meta":{"site":"a1","host":"sensor-0042"},"temp":21.375,` +
	`"humidity":47,"pressure":1013.25,"battery":3.71,"rssi":-67}`

func BenchmarkDecode(b *testing.B) {
	var document any
	if err := json.Unmarshal([]byte(exampleEvent), &document); err != nil {
		b.Fatal(err)
	}
	inBSON, err := bson.Marshal(document)
	if err != nil {
		b.Fatal(err)
	}
	const canonical = `{"time":{"$date":{"$numberLong":"1700000000123"}},"meta":{"site":"a1","host":"sensor-0042"},` +
		`"temp":{"$numberDouble":"21.375"},"humidity":{"$numberInt":"47"},"pressure":1013.25,"battery":3.71,"rssi":-67}`
	const flat = `{"time":1700000000123,"meta":"sensor-0042","temp.in":21.375,"temp.out":19.5,"pressure":1013.25,"battery":3.71,"rssi":-67}`
	benchmarks := []struct {
		name   string
		format Format
		value  []byte
	}{
		{"json", JSON, []byte(exampleEvent)},
		{"extjson", ExtJSON, []byte(canonical)},
		{"bson", BSON, inBSON},
		{"dotted", JSON, []byte(flat)},
	}
	for _, benchmark := range benchmarks {
		b.Run(benchmark.name, func(b *testing.B) {
			o := plainOptions
			o.Format = benchmark.format
			d := newDecoder(b, o)
			r := record.Record{Timestamp: recordTime, Value: benchmark.value}
			b.SetBytes(int64(len(r.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodePaths(b *testing.B) {
	for name, r := range pathBenchmarks(b) {
		b.Run(name, func(b *testing.B) {
			d := newDecoder(b, r.options)
			b.SetBytes(int64(len(r.record.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(r.record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeArray(b *testing.B) {
	const events = 100
	value := []byte{'['}
	for range events - 1 {
		value = append(append(value, exampleEvent...), ',')
	}
	value = append(append(value, exampleEvent...), ']')
	d := newDecoder(b, plainOptions)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(record.Record{Timestamp: recordTime, Value: value}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
