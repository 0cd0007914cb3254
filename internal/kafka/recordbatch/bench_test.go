package recordbatch

import (
	"fmt"
	"testing"
)

// BenchmarkDecode decodes 1 MiB of records of 150 bytes. Without compression, ns/record must stay below 100.
func BenchmarkDecode(b *testing.B) {
	const perBatch = 100
	value := []byte(fmt.Sprintf(`{"time":"2026-01-01T00:00:00.000Z","meta":{"sensor":"s-%012d"},"a":1.25,"b":2.5,"c":3.75,"d":4,"e":5,"pad":"%030d"}`, 42, 7))
	variants := map[string]struct {
		codec    int16
		compress func([]byte) []byte
	}{"none": {0, func(b []byte) []byte { return b }}}
	for name, c := range compressors(b) {
		variants[name] = c
	}
	for name, c := range variants {
		var set []byte
		records := 0
		for len(set) < 1<<20 && records < 100_000 {
			var payload []byte
			for i := range perBatch {
				r := recordSpec{delta: int64(i), time: int64(i), key: []byte("s-000000000042"), value: value}
				payload = append(payload, r.encode()...)
			}
			set = append(set, batchSpec{
				base: int64(records), attributes: c.codec, lastDelta: perBatch - 1, count: perBatch, payload: c.compress(payload),
			}.encode()...)
			records += perBatch
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(set)))
			given := new(piece)
			fresh := newTestDecoder(nil, 0, 1<<20)
			for b.Loop() {
				d, n := *fresh, 0
				for d.set = set; d.more(); n += len(given.records) {
					given.reset()
					if err := d.piece(given, Piece{1 << 20, 8192}); err != nil {
						b.Fatal(err)
					}
				}
				if n != records {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
		})
	}
}
