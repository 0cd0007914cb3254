package sink_test

import (
	"strconv"
	"testing"

	"waterwheel/bucketer"
)

// BenchmarkSend inserts buckets of 1 to 1000 measurements, with as many per call as Send uses.
func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 20, 200, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { benchmarkSend(b, n) })
	}
}

func benchmarkSend(b *testing.B, n int) {
	e := connect(b)
	p := e.claimed(b, e.setup(b))
	b.ReportAllocs()
	writes, offset, took := make([]*bucketer.Write, min(4000, 600_000/n)), int64(0), int64(0)
	for b.Loop() {
		b.StopTimer()
		for i := range writes {
			writes[i] = insertOf(strconv.Itoa(i), run(offset, n)...)
			offset += int64(n)
		}
		b.StartTimer()
		started := processorNanos(b)
		sendAll(b, p, bucketer.Applied, writes...)
		took += processorNanos(b) - started
	}
	b.ReportMetric(float64(took)/float64(b.N*len(writes)), "cpu-ns/write")
}

// BenchmarkStored reads the stored positions of 10,000 buckets of 20 measurements.
func BenchmarkStored(b *testing.B) {
	e := connect(b)
	p := e.claimed(b, e.setup(b))
	writes := make([]*bucketer.Write, 10_000)
	for i := range writes {
		writes[i] = insertOf(strconv.Itoa(i), run(int64(i)*20, 20)...)
	}
	sendAll(b, p, bucketer.Applied, writes...)
	b.ReportAllocs()
	for b.Loop() {
		if d, err := p.Stored(b.Context(), 0, 1<<31); err != nil || d.Len() != 200_000 {
			b.Fatal(d.Len(), err)
		}
	}
}

// BenchmarkFind looks up 1000 series among 4000 buckets.
func BenchmarkFind(b *testing.B) {
	e := connect(b)
	p := e.claimed(b, e.setup(b))
	writes, asked := make([]*bucketer.Write, 4000), make([]string, 1000)
	for i := range writes {
		writes[i] = insertOf(strconv.Itoa(i), run(int64(i)*20, 20)...)
	}
	for i := range asked {
		asked[i] = strconv.Itoa(i * 4)
	}
	sendAll(b, p, bucketer.Applied, writes...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Find(b.Context(), lookups(asked...)); err != nil {
			b.Fatal(err)
		}
	}
}
