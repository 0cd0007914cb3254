package kafka

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// taking decodes a set through a cursor that has it as its answer.
func taking(set []byte, high, from int64, skip ...Position) *Cursor {
	c := &Client{options: Options{SkipCorrupt: skip}.withDefaults(), unfolders: newUnfolders(), metrics: newFetchMetrics(prometheus.NewRegistry())}
	c.batches.New = func() any { return new(Batch) }
	c.codecs.New = func() any { return &codecs{limit: c.options.PieceBytes} }
	cursor := c.Cursor("events", [16]byte{1}, 3)
	cursor.request.Offset, cursor.answer = from, &fetchAnswer{records: set, highWatermark: high}
	cursor.rewind(from)
	return cursor
}

// TestUnreadableBatchesAreSkippedByTheirPlace: only what was named is passed over, with its bytes; what was not says how it
// may be named, in the same way whatever the offset is that it was come to from.
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
		place := Position{"events", 3, test.offset}
		for _, from := range []int64{0, 3, 4, 5} {
			cursor := taking(set, 100, from, Position{"events", 3, 4}, Position{"events", 2, test.offset})
			next := from
			var err error
			for err == nil {
				var b *Batch
				if b, err = cursor.Take(next, PieceOf(cursor.client.options.PieceBytes)); err == nil {
					next = b.Next
				}
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "KAFKA_SKIP_CORRUPT="+place.String()) {
				t.Errorf("%s, from %d: %v", name, from, err)
			}
			cursor = taking(set, 100, next, place)
			b, err := cursor.Take(next, PieceOf(cursor.client.options.PieceBytes))
			if err != nil || len(b.Records) != 1 || b.Next != test.end+1 {
				t.Errorf("%s, from %d: %+v, %v", name, from, b, err)
				continue
			}
			if r := b.Records[0]; r.Offset != test.offset || r.Unreadable == "" || !bytes.HasPrefix(r.Value, test.bad) {
				t.Errorf("%s, from %d: %+v", name, from, r)
			}
			if cursor.has(b.Next) {
				t.Errorf("%s: what follows is not asked for again", name)
			}
		}
	}
}

// TestSkippingEndsWithTheLog: a record batch that says it ends behind the log's end is passed over for one offset.
func TestSkippingEndsWithTheLog(t *testing.T) {
	bad := batchSpec{base: 5, lastDelta: 1 << 30, count: 1, payload: []byte{1}}.encode()
	cursor := taking(bad, 9, 5, Position{"events", 3, 5})
	if b, err := cursor.Take(5, PieceOf(cursor.client.options.PieceBytes)); err != nil || b.Next != 6 {
		t.Errorf("%+v, %v", b, err)
	}
}
