package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waterwheel/internal/record"
)

func TestDecodeKeepsNullAndEmptyApart(t *testing.T) {
	set := batchSpec{base: 5, baseTime: 1000, records: []recordSpec{
		{delta: 0, time: -3, key: nil, value: []byte{}},
		{delta: 1, time: 70, key: []byte{}, value: nil, headers: []record.Header{{Key: "a", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("v")}}},
	}}.encode()
	batch, err := decodeSet(set, 5)
	if err != nil {
		t.Fatal(err)
	}
	headers := batch.Records[1].Headers
	want := []record.Record{
		{Offset: 5, Timestamp: 997, Key: nil, Value: []byte{}},
		{Offset: 6, Timestamp: 1070, Key: []byte{}, Value: nil, Headers: headers},
	}
	if diff := cmp.Diff(want, batch.Records); diff != "" {
		t.Error(diff)
	}
	parsed, err := ParseHeaders(headers)
	if diff := cmp.Diff([]record.Header{{Key: "a", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte("v")}}, parsed); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestDecodeEveryCodec(t *testing.T) {
	records := make([]recordSpec, 1200)
	for i := range records {
		records[i] = recordSpec{delta: int64(i), time: int64(i % 100), key: []byte("sensor"), value: bytes.Repeat([]byte{byte(i)}, i%60)}
	}
	plain, err := decodeSet(batchSpec{base: 100, records: records}.encode(), 100)
	if err != nil || len(plain.Records) != len(records) {
		t.Fatal(len(plain.Records), err)
	}
	var payload []byte
	for _, r := range records {
		payload = append(payload, r.encode()...)
	}
	for name, c := range compressors(t) {
		t.Run(name, func(t *testing.T) {
			spec := batchSpec{base: 100, attributes: c.codec, lastDelta: 1199, count: 1200, payload: c.compress(payload)}
			set := concat(spec.encode(), batchSpec{base: 1300, records: plainRecords(1)}.encode())
			got, err := decodeSet(set, 100)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain.Records, got.Records[:1200]); diff != "" || got.Next != 1301 {
				t.Error(got.Next, diff)
			}
		})
	}
}

func TestDecodeRejectsDamagedCompression(t *testing.T) {
	var payload []byte
	for _, r := range plainRecords(500) {
		payload = append(payload, r.encode()...)
	}
	for name, c := range compressors(t) {
		packed := c.compress(payload)
		damaged := map[string][]byte{"cut": packed[:len(packed)/2], "empty": {}, "garbage": []byte("not compressed at all")}
		for kind, bytes := range damaged {
			set := batchSpec{attributes: c.codec, lastDelta: 499, count: 500, payload: bytes}.encode()
			if batch, err := decodeSet(set, 0); !errors.Is(err, ErrCorrupt) || len(batch.Records) != 0 || batch.Next != 0 {
				t.Errorf("%s, %s: %d records, next %d, %v", name, kind, len(batch.Records), batch.Next, err)
			}
		}
	}
}

func TestDecompressIsBounded(t *testing.T) {
	const limit = 1 << 20
	bounded := &codecs{limit: limit}
	for name, c := range compressors(t) {
		if plain, err := bounded.decompress(nil, c.codec, c.compress(make([]byte, limit))); err != nil || len(plain) != limit {
			t.Errorf("%s: %d bytes at the limit: %v", name, len(plain), err)
		}
		if _, err := bounded.decompress(nil, c.codec, c.compress(make([]byte, limit+1))); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: a byte too many: %v", name, err)
		}
	}
}

func TestDecodeTakesTheBrokersTime(t *testing.T) {
	set := batchSpec{attributes: attributeLogAppendTime, baseTime: 10, maxTime: 777, records: plainRecords(3)}.encode()
	batch, err := decodeSet(set, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range batch.Records {
		if r.Timestamp != 777 {
			t.Errorf("offset %d has time %d", r.Offset, r.Timestamp)
		}
	}
}

func TestDecodeReadsABatchWithADeletionHorizon(t *testing.T) {
	const attributeDeleteHorizon = 0x40
	set := batchSpec{attributes: attributeDeleteHorizon, baseTime: 5000, records: []recordSpec{{delta: 0, time: -4000, value: []byte("v")}}}.encode()
	batch, err := decodeSet(set, 0)
	if err != nil || batch.Records[0].Timestamp != 1000 {
		t.Error(batch.Records, err)
	}
}

func TestDecodeMovesPastWhatCompactionLeft(t *testing.T) {
	set := concat(
		batchSpec{base: 10, lastDelta: 9, records: []recordSpec{{delta: 2, value: []byte("a")}, {delta: 5, value: []byte("b")}}}.encode(),
		batchSpec{base: 20, lastDelta: 4}.encode(), // nothing left
		batchSpec{base: 40, lastDelta: 9, records: []recordSpec{{delta: 0, value: []byte("c")}}}.encode(),
	)
	batch, err := decodeSet(set, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{12, 15, 40}, offsets(batch)); diff != "" || batch.Next != 50 {
		t.Error(batch.Next, diff)
	}
}

func TestDecodeBeginsInsideABatch(t *testing.T) {
	set := concat(batchSpec{base: 10, records: plainRecords(5)}.encode(), batchSpec{base: 15, records: plainRecords(2)}.encode())
	batch, err := decodeSet(set, 13)
	if diff := cmp.Diff([]int64{13, 14, 15, 16}, offsets(batch)); diff != "" || err != nil || batch.Next != 17 {
		t.Error(batch.Next, err, diff)
	}
	batch, err = decodeSet(set, 15)
	if diff := cmp.Diff([]int64{15, 16}, offsets(batch)); diff != "" || err != nil || batch.Next != 17 {
		t.Error(batch.Next, err, diff)
	}
}

func TestDecodeLeavesTheLastBatchThatIsCutOff(t *testing.T) {
	first, second := batchSpec{base: 0, records: plainRecords(3)}.encode(), batchSpec{base: 3, records: plainRecords(3)}.encode()
	for cut := range second {
		batch, err := decodeSet(concat(first, second[:cut]), 0)
		if err != nil || len(batch.Records) != 3 || batch.Next != 3 {
			t.Fatalf("cut to %d bytes: %d records, next %d, %v", cut, len(batch.Records), batch.Next, err)
		}
	}
}

func TestDecodeComplainsWhenItCannotGoOn(t *testing.T) {
	whole := batchSpec{base: 0, records: plainRecords(3)}.encode()
	if _, err := decodeSet(whole[:len(whole)-1], 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the only batch cut off: %v", err)
	}
	if batch, err := decodeSet(whole, 3); err != nil || batch.Next != 3 || len(batch.Records) != 0 {
		t.Errorf("a batch before the position: next %d, %v", batch.Next, err)
	}
}

func TestDecodeDropsMarkers(t *testing.T) {
	set := concat(transactional(0, 1, 2), marker(2, 1, commitMarker), batchSpec{base: 3, records: plainRecords(1)}.encode(), marker(4, 2, abortMarker))
	batch, err := decodeSet(set, 0)
	if diff := cmp.Diff([]int64{0, 1, 3}, offsets(batch)); diff != "" || err != nil || batch.Next != 5 {
		t.Error(batch.Next, err, diff)
	}
}

// TestDecodeDropsAbortedTransactionsInAnyOrder checks this because brokers list aborted transactions in the order of their
// markers. Here the transaction that began first is not the first in the list.
func TestDecodeDropsAbortedTransactionsInAnyOrder(t *testing.T) {
	set := concat(
		transactional(0, 1, 2),      // aborted at 8
		transactional(2, 2, 2),      // aborted at 6
		transactional(4, 3, 2),      // committed
		marker(6, 2, abortMarker),   //
		transactional(7, 2, 1),      // a new transaction of 2, committed
		marker(8, 1, abortMarker),   //
		marker(9, 2, commitMarker),  //
		marker(10, 3, commitMarker), //
		transactional(11, 1, 1),     // aborted again at 13
		batchSpec{base: 12, producer: 1, records: plainRecords(1)}.encode(), // same producer id, no transaction
		marker(13, 1, abortMarker),
		transactional(14, 1, 1), // committed later
	)
	aborted := []Aborted{{Producer: 2, First: 2}, {Producer: 1, First: 0}, {Producer: 1, First: 11}}
	batch, err := decodeSet(set, 0, aborted...)
	if diff := cmp.Diff([]int64{4, 5, 7, 12, 14}, offsets(batch)); diff != "" || err != nil || batch.Next != 15 {
		t.Error(batch.Next, err, diff)
	}
}

func TestDecodeRejectsOldFormats(t *testing.T) {
	for _, magic := range []byte{0, 1, 3, 255} {
		set := batchSpec{records: plainRecords(1)}.encode()
		set[batchMagic] = magic
		if _, err := decodeSet(set, 0); !errors.Is(err, ErrUnreadable) {
			t.Errorf("format %d: %v", magic, err)
		}
	}
}

func TestDecodeRejectsUnknownCompression(t *testing.T) {
	set := batchSpec{attributes: 5, records: plainRecords(1)}.encode()
	if _, err := decodeSet(set, 0); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "compression type 5") {
		t.Error(err)
	}
}

func TestDecodeChecksTheChecksum(t *testing.T) {
	whole := batchSpec{base: 3, records: plainRecords(4)}.encode()
	for i := batchChecksum; i < len(whole); i++ {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x20
		if batch, err := decodeSet(damaged, 3); !errors.Is(err, ErrCorrupt) || len(batch.Records) != 0 {
			t.Fatalf("byte %d damaged: %d records, %v", i, len(batch.Records), err)
		}
	}
}

func TestDecodeGivesWhatComesBeforeABadBatch(t *testing.T) {
	bad := batchSpec{base: 3, records: plainRecords(4)}.encode()
	bad[len(bad)-1] ^= 1
	batch, err := decodeSet(concat(batchSpec{base: 0, records: plainRecords(3)}.encode(), bad), 0)
	if !errors.Is(err, ErrCorrupt) || len(batch.Records) != 3 || batch.Next != 3 {
		t.Error(len(batch.Records), batch.Next, err)
	}
}

func TestDecodeBoundsWhatABatchClaims(t *testing.T) {
	record := recordSpec{value: []byte("v")}.encode()
	tests := map[string][]byte{
		"more records than fit":  batchSpec{count: math.MaxInt32, payload: record}.encode(),
		"a negative count":       batchSpec{count: -1, payload: record}.encode(),
		"fewer records than are": batchSpec{count: 1, payload: concat(record, record)}.encode(),
		"a record too long":      batchSpec{count: 1, payload: append([]byte{0x7e}, record...)}.encode(),
		"a record of no length":  batchSpec{count: 1, payload: bytes.Repeat([]byte{0xff}, 20)}.encode(),
		"offsets that go back":   batchSpec{records: []recordSpec{{delta: 1}, {delta: 0}, {delta: 2}}}.encode(),
		"the same offset twice":  batchSpec{records: []recordSpec{{delta: 0}, {delta: 0}}}.encode(),
		"an offset after the last": seal(func() []byte {
			b := batchSpec{records: []recordSpec{{delta: 5}}}.encode()
			b[batchLastDelta+3] = 4
			return b
		}()),
		"a negative base offset":   batchSpec{base: -1, records: plainRecords(1)}.encode(),
		"a base offset at the end": batchSpec{base: math.MaxInt64, records: plainRecords(1)}.encode(),
		"a negative last offset":   batchSpec{lastDelta: -1, count: 1, payload: record}.encode(),
		"a length below its head":  append(binary.BigEndian.AppendUint32(make([]byte, 8), 3), 0, 0, 0, 0, 2, 0, 0),
		"a negative length":        append(binary.BigEndian.AppendUint32(make([]byte, 8), math.MaxUint32), 0, 0, 0, 0, 2, 0, 0),
		"a marker without a key":   batchSpec{attributes: attributeControl, records: []recordSpec{{}}}.encode(),
		"a header list cut off":    batchSpec{count: 1, payload: []byte{10, 0, 0, 0, 1, 1}}.encode(),
	}
	for name, set := range tests {
		before := 0
		if name == "offsets that go back" {
			before = 1 // the record before it in the same record batch
		}
		if batch, err := decodeSet(set, 0); !errors.Is(err, ErrCorrupt) || len(batch.Records) != before {
			t.Errorf("%s: %d records, %v", name, len(batch.Records), err)
		}
	}
}

func TestParseHeadersRejects(t *testing.T) {
	for name, raw := range map[string][]byte{
		"more than fit":     {100, 2, 'k'},
		"a negative count":  {1},
		"no key":            {2, 1, 1},
		"a value cut off":   {2, 2, 'k', 20, 'v'},
		"bytes left over":   {2, 2, 'k', 2, 'v', 0},
		"no end of a count": {0x80},
	} {
		if headers, err := ParseHeaders(raw); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, headers, err)
		}
	}
}
