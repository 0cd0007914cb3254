package bucketer

import (
	"fmt"
	"testing"
)

// BenchmarkBackfill inserts a batch of one series that comes newest first, a minute apart. Each measurement opens a bucket after
// a look-up.
func BenchmarkBackfill(b *testing.B) {
	for _, batch := range []int{1000, 4000, 16_000, 64_000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			cpu := &processor{b: b}
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			for range b.N {
				c := New(reopening(b))
				cpu.start()
				insertBackwards(b, c, batch)
				rounds := answering(c, 1000, nothing)
				cpu.stop()
				b.ReportMetric(float64(rounds), "rounds")
				flushAll(c)
			}
			cpu.report(b.N*batch, "record")
		})
	}
}
