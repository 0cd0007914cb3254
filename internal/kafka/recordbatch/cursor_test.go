package recordbatch

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// TestMarkersThatCompactionEmptiedArePassedOver checks control batches without records. Compaction leaves such a batch for the
// last marker of a producer that the broker still knows.
func TestMarkersThatCompactionEmptiedArePassedOver(t *testing.T) {
	empty := batchSpec{base: 2, attributes: attributeControl | attributeTransactional, producer: 1}.encode()
	set := concat(transactional(0, 1, 2), empty, batchSpec{base: 3, records: plainRecords(1)}.encode())
	if b, err := decodeSet(set, 0); err != nil || len(b.Records) != 3 || b.Next != 4 {
		t.Errorf("%d records, next %d, %v", len(b.Records), b.Next, err)
	}
}

// TestALengthThatIsNoneIsCorrupt checks that an invalid record length ends the decoding of a record batch, wherever it occurs.
// The decoder must not wait for more bytes.
func TestALengthThatIsNoneIsCorrupt(t *testing.T) {
	const pieceBytes = 64 << 10
	for name, c := range compressors(t) {
		for _, before := range []int{0, 50, 1500} {
			var payload []byte
			for i := range before {
				payload = append(payload, recordSpec{delta: int64(i), value: bytes.Repeat([]byte{byte(i)}, 100)}.encode()...)
			}
			payload = append(payload, bytes.Repeat([]byte{0xff}, 10*pieceBytes)...)
			set := batchSpec{attributes: c.codec, lastDelta: 5000, count: 5001, payload: c.compress(payload)}.encode()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b, err := decodePieces(newTestDecoder(set, 0, pieceBytes), Piece{pieceBytes, 512})
				if len(b.Records) != before || !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s after %d: %d records, %v", name, before, len(b.Records), err)
				}
			}()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s after %d: no end", name, before)
			}
		}
	}
}
