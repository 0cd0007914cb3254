package recordbatch

import (
	"errors"
	"testing"
)

// FuzzDecode feeds the decoder arbitrary record sets. It corrects their checksums, because otherwise the decoder would refuse
// nearly all of them.
func FuzzDecode(f *testing.F) {
	f.Add(batchSpec{base: 5, records: plainRecords(3)}.encode(), int64(5), int64(0), int64(0))
	f.Add(concat(transactional(0, 1, 2), marker(2, 1, abortMarker), transactional(3, 2, 1)), int64(0), int64(1), int64(0))
	f.Add(batchSpec{base: 20, lastDelta: 4}.encode(), int64(22), int64(-1), int64(9))
	var payload []byte
	for _, r := range plainRecords(20) {
		payload = append(payload, r.encode()...)
	}
	for _, c := range compressors(f) {
		f.Add(batchSpec{attributes: c.codec, lastDelta: 19, count: 20, payload: c.compress(payload)}.encode(), int64(0), int64(7), int64(7))
	}
	f.Fuzz(func(t *testing.T, set []byte, from, producer, first int64) {
		if len(set) > batchRecords {
			size := min(len(set), batchLengthField+int(uint32(set[batchLength])<<24|uint32(set[batchLength+1])<<16|uint32(set[batchLength+2])<<8|uint32(set[batchLength+3])))
			if size > batchRecords {
				seal(set[:size:size])
			}
		}
		batch, err := decodeSet(set, from, Aborted{Producer: producer, First: first})
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnreadable) {
			t.Fatalf("an error of no kind: %v", err)
		}
		if batch.Next < from {
			t.Fatalf("the position went back from %d to %d", from, batch.Next)
		}
		previous := from - 1
		for _, r := range batch.Records {
			if r.Offset <= previous || r.Offset >= batch.Next {
				t.Fatalf("offset %d after %d, next is %d", r.Offset, previous, batch.Next)
			}
			previous = r.Offset
			if _, err := ParseHeaders(r.Headers); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
	})
}
