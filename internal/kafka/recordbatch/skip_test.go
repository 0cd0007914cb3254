package recordbatch

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// taking returns a reader of a set from an offset on.
func taking(set []byte, high, from int64, skip ...record.Place) *Reader {
	m := NewMemory(Options{PieceBytes: 1 << 20, RecordBytes: 2 << 20, SkipCorrupt: skip})
	return m.NewReader(Set{Partition: of, Bytes: set, From: from, End: high})
}

func place(number int32, offset int64) record.Place {
	return record.Place{Partition: record.Partition{Topic: of.Topic, Number: number}, Offset: offset}
}

// TestUnreadableBatchesAreSkippedByTheirPlace checks that only a named batch is skipped, and that its bytes are given out. The
// error for any other batch says how to name it, in the same way from every offset at which a read may begin.
func TestUnreadableBatchesAreSkippedByTheirPlace(t *testing.T) {
	good := batchSpec{base: 0, records: plainRecords(3)}.encode()
	damaged := batchSpec{base: 5, records: plainRecords(4)}.encode() // after a gap
	damaged[len(damaged)-1] ^= 1
	malformed := batchSpec{base: 5, lastDelta: 3, count: 4, payload: concat(plainRecords(1)[0].encode(), bytes.Repeat([]byte{0x7e}, 30))}.encode()
	alien := bytes.Clone(damaged)
	alien[batchMagic] = 3
	behind := batchSpec{base: 9, records: plainRecords(2)}.encode()
	for name, test := range map[string]struct {
		bad         []byte
		offset, end int64
	}{
		"damaged":              {damaged, 5, 8},
		"of an unknown form":   {alien, 5, 8},
		"malformed behind one": {malformed, 6, 8},
	} {
		set := concat(good, test.bad, behind)
		place, other := place(3, test.offset), []record.Place{place(3, 4), place(2, test.offset)}
		for _, from := range []int64{0, 3, 4, 5} {
			reader := taking(set, 100, from, other...)
			next := from
			var err error
			for err == nil {
				var b record.Batch
				if b, err = reader.Take(next, PieceOf(1<<20)); err == nil {
					next = b.Next
				}
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "KAFKA_SKIP_CORRUPT="+place.String()) {
				t.Errorf("%s, from %d: %v", name, from, err)
			}
			reader = taking(set, 100, next, place)
			b, err := reader.Take(next, PieceOf(1<<20))
			if err != nil || len(b.Records) != 1 || b.Next != test.end+1 {
				t.Errorf("%s, from %d: %+v, %v", name, from, b, err)
				continue
			}
			if r := b.Records[0]; r.Offset != test.offset || r.Unreadable == "" || !bytes.HasPrefix(r.Value, test.bad) {
				t.Errorf("%s, from %d: %+v", name, from, r)
			}
			if reader.Has(b.Next) {
				t.Errorf("%s: what follows is not asked for again", name)
			}
		}
	}
}

// TestSkippingEndsWithTheLog checks that the reader skips one offset if the batch claims an end behind the end of the log.
func TestSkippingEndsWithTheLog(t *testing.T) {
	bad := batchSpec{base: 5, lastDelta: 1 << 30, count: 1, payload: []byte{1}}.encode()
	reader := taking(bad, 9, 5, place(3, 5))
	if b, err := reader.Take(5, PieceOf(1<<20)); err != nil || b.Next != 6 {
		t.Errorf("%+v, %v", b, err)
	}
}
