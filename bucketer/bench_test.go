package bucketer

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/measurement"
	"waterwheel/internal/timeseries"
	"waterwheel/internal/timeseries/rawbson"
)

// testLimits are the defaults of MongoDB.
var testLimits = timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}

func testOptions(t testing.TB) Options {
	t.Helper()
	o, err := timeseries.Options{TimeField: "time", MetaField: "sensor"}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Collection: o, Limits: testLimits, Source: timeseries.Source{Topic: "events"}}
}

// numeric is a stream of measurements of five doubles, of many series in turn.
type numeric struct {
	measurement.Measurement
	series int
	next   int
	window int64 // added to the times, in milliseconds
	fields []byte
	values []int // positions of the values in fields
	meta   []byte
}

func newNumeric(series int) *numeric {
	n := &numeric{series: series}
	for _, name := range []string{"temperature", "humidity", "pressure", "voltage", "current"} {
		n.fields = rawbson.AppendHeader(n.fields, bson.TypeDouble, name)
		n.values = append(n.values, len(n.fields))
		n.fields = appendInt64(n.fields, 0)
	}
	n.meta = appendFields(nil, appendInt64(rawbson.AppendHeader(nil, bson.TypeInt64, "id"), 0))
	n.Elements = n.fields
	n.Meta = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: n.meta}
	return n
}

// advance makes the next measurement.
func (n *numeric) advance() {
	binary.LittleEndian.PutUint64(n.meta[8:], uint64(n.next%n.series))
	n.Position.Offset = int64(n.next)
	n.Time = n.window + int64(n.next/n.series)*100
	bits := math.Float64bits(20 + float64(n.next%977)/31)
	for _, at := range n.values {
		binary.LittleEndian.PutUint64(n.fields[at:], bits)
	}
	n.next++
}

func (n *numeric) insert(b testing.TB, c *Catalog, count int) {
	for range count {
		n.advance()
		if err := c.Insert(&n.Measurement); err != nil {
			b.Fatal(err)
		}
	}
}

// processor measures the process's time on all processors, which is steadier than the clock on a busy machine.
type processor struct {
	b     *testing.B
	used  time.Duration
	since time.Duration
}

func (p *processor) now() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		p.b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// start and stop exclude the cost of the benchmark's own timer, which needs tens of microseconds to read the heap statistics.
func (p *processor) start() { p.b.StartTimer(); p.since = p.now() }
func (p *processor) stop()  { p.used += p.now() - p.since; p.b.StopTimer() }

func (p *processor) report(n int, unit string) {
	p.b.ReportMetric(float64(p.used.Nanoseconds())/float64(n), "cpu-ns/"+unit)
}

func flushAll(c *Catalog) {
	if f := c.Prepare(0); f != nil {
		c.Finish(f, make([]Outcome, len(f.Writes)), 0)
		c.Release(f)
	}
}

// BenchmarkInsert inserts measurements of five numeric fields into open buckets. It does not measure flushes.
func BenchmarkInsert(b *testing.B) {
	for _, series := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("series=%d", series), func(b *testing.B) {
			c := New(testOptions(b))
			n := newNumeric(series)
			n.insert(b, c, 2*series)
			flushAll(c)
			every := max(2*series, 100_000)
			n.insert(b, c, every)
			flushAll(c)
			b.ReportAllocs()
			cpu := &processor{b: b}
			b.ResetTimer()
			cpu.start()
			for i := range b.N {
				if i%every == every-1 {
					cpu.stop()
					flushAll(c)
					runtime.GC()
					cpu.start()
				}
				n.advance()
				if err := c.Insert(&n.Measurement); err != nil {
					b.Fatal(err)
				}
			}
			cpu.stop()
			cpu.report(b.N, "op")
		})
	}
}

// BenchmarkPrepare encodes the waiting measurements of 1000 buckets of a warmed-up catalog, as whole documents and as updates.
func BenchmarkPrepare(b *testing.B) {
	for _, each := range []int{1, 20, 200} {
		for _, kind := range []Kind{Insert, Update} {
			name := fmt.Sprintf("insert=%d", each)
			if kind == Update {
				name = fmt.Sprintf("update=%d", each)
			}
			b.Run(name, func(b *testing.B) { benchmarkPrepare(b, each, kind) })
		}
	}
}

func benchmarkPrepare(b *testing.B, each int, kind Kind) {
	const series = 1000
	c := New(testOptions(b))
	n := newNumeric(series)
	fields := 0
	cpu := &processor{b: b}
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	for range b.N {
		n.window += c.span // new buckets
		if kind == Update {
			n.insert(b, c, series)
			flushAll(c)
		}
		n.insert(b, c, series*each)
		runtime.GC()
		cpu.start()
		f := c.Prepare(0)
		cpu.stop()
		for _, w := range f.Writes {
			if w.Kind != kind || int(w.Added) != each {
				b.Fatalf("a write of kind %d adds %d", w.Kind, w.Added)
			}
		}
		fields += f.Measurements * 6
		c.Finish(f, make([]Outcome, len(f.Writes)), 0)
		c.Release(f)
	}
	cpu.report(fields, "field")
}
