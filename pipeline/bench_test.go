package pipeline

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"waterwheel/bucketer"
	"waterwheel/internal/measurement"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
)

// BenchmarkDecodeInsertEncode measures the work per measurement between Kafka and MongoDB. It decodes an event of 150 bytes with
// five numbers, inserts it, and encodes the writes, for 500 series in flushes of 100,000.
func BenchmarkDecodeInsertEncode(b *testing.B) {
	const series, each = 500, 200
	var values [][]byte
	for i := range series * each {
		values = append(values, fmt.Appendf(nil,
			`{"time":"2026-03-01T12:%02d:%02d.%03dZ","meta":"sensor-%04d","celsius":%d.%d,"humidity":%d,"pressure":%d.5,"rssi":-%d,"count":%d,"state":"on"}`,
			i/series/60%60, i/series%60, i%1000, i%series, 15+i%10, i%10, 40+i%20, 1000+i%30, 40+i%50, i))
	}
	collection, err := timeseries.Options{TimeField: "time", MetaField: "meta"}.Normalize()
	if err != nil {
		b.Fatal(err)
	}
	decoder, err := measurement.New(measurement.Options{TimeField: "time", MetaField: "meta"})
	if err != nil {
		b.Fatal(err)
	}
	catalog := bucketer.New(bucketer.Options{Collection: collection, Limits: timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}, DeltaMax: 16})
	flush := func() {
		if f := catalog.Prepare(0); f != nil {
			if len(f.Writes) > series {
				b.Fatalf("a flush has %d writes for %d series", len(f.Writes), series)
			}
			catalog.Finish(f, make([]bucketer.Outcome, len(f.Writes)), 0)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	started := processorTime(b)
	for i := range b.N {
		value := values[i%len(values)]
		results, err := decoder.Decode(record.Record{Offset: int64(i), Timestamp: 1_772_366_400_000, Value: value})
		if err != nil || results[0].Err != nil {
			b.Fatal(err, results)
		}
		if err := catalog.Insert(&results[0].Measurement); err != nil {
			b.Fatal(err)
		}
		if i%len(values) == len(values)-1 {
			flush()
		}
	}
	flush()
	b.ReportMetric(float64(b.N)/(processorTime(b)-started).Seconds(), "measurements/s-cpu")
}

// processorTime returns the processor time of this process. Other programs on the machine do not affect it.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
