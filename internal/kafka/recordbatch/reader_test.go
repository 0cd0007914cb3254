package recordbatch

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"waterwheel/internal/record"
)

// largeBatch returns a record batch of n records under a codec. Its offsets have gaps, and its values have up to about most
// bytes.
func largeBatch(t testing.TB, rnd *rand.Rand, codec string, base int64, n, most int) []byte {
	t.Helper()
	var payload []byte
	delta := int64(-1)
	for i := range n {
		delta += 1 + rnd.Int64N(3)
		value := bytes.Repeat([]byte(fmt.Sprintf("%d,", i)), 1+rnd.IntN(most)/8)
		payload = append(payload, recordSpec{delta: delta, time: int64(i), key: []byte("k"), value: value}.encode()...)
	}
	spec := batchSpec{base: base, lastDelta: int32(delta), count: int32(n), payload: payload}
	if c, ok := compressors(t)[codec]; ok {
		spec.attributes, spec.payload = c.codec, c.compress(payload)
	}
	return spec.encode()
}

// TestPiecesGiveOutEveryRecordOnce checks that pieces of any size, from any offset on, hold the same records as one large piece,
// each once.
func TestPiecesGiveOutEveryRecordOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, codec := range []string{"none", "gzip", "snappy raw", "snappy xerial", "lz4", "zstd"} {
		var set []byte
		next := int64(5)
		for range 4 {
			batch := largeBatch(t, rnd, codec, next, 1+rnd.IntN(400), 2000)
			set = append(set, batch...)
			h := parseBatchHeader(batch)
			next += int64(h.lastDelta) + 1 + rnd.Int64N(10)
			set = append(set, marker(next, 3, commitMarker)...)
			next++
		}
		for range 10 {
			from := rnd.Int64N(next)
			whole, err := decodePieces(newTestDecoder(set, from, 64<<20), Piece{64 << 20, 1 << 20})
			if err != nil {
				t.Fatal(codec, err)
			}
			d := newTestDecoder(set, from, 20_000+rnd.IntN(100_000))
			got, err := decodePieces(d, Piece{1 + rnd.IntN(40_000), 1 + rnd.IntN(200)})
			if err != nil || got.Next != whole.Next || d.more() {
				t.Fatal(codec, err, got.Next, whole.Next)
			}
			if !reflect.DeepEqual(whole.Records, got.Records) {
				t.Fatalf("%s from %d: the records are others", codec, from)
			}
		}
	}
}

// TestPiecesAreBounded checks that a small compressed payload does not make a piece large, for any number of concurrent readers.
func TestPiecesAreBounded(t *testing.T) {
	const bytesWhole = 12 << 20
	for name, c := range compressors(t) {
		if name == "snappy raw" {
			continue // it unfolds to 21 times its size at most
		}
		var payload []byte
		for i := range 12 {
			payload = append(payload, recordSpec{delta: int64(i), value: make([]byte, bytesWhole/12)}.encode()...)
		}
		set := batchSpec{attributes: c.codec, lastDelta: 11, count: 12, payload: c.compress(payload)}.encode()
		decoders := []*decoder{newTestDecoder(set, 0, 1<<20)}
		for range 3*openStreams - 1 {
			d := *decoders[0]
			decoders = append(decoders, &d)
		}
		given := make([]int, len(decoders))
		for decoders[0].more() {
			for i, d := range decoders {
				p := new(piece)
				if err := d.piece(p, Piece{1 << 20, 8192}); err != nil {
					t.Fatal(name, err)
				}
				given[i] += len(p.records)
				if size := p.size() + d.kept(); size > 6<<20 {
					t.Fatalf("%s: a piece of %d records takes %d bytes", name, len(p.records), size)
				}
			}
		}
		for _, n := range given {
			if n != 12 {
				t.Errorf("%s: %d records, want 12", name, n)
			}
		}
	}
}

func TestARecordBatchBeyondTheBoundsIsNamed(t *testing.T) {
	record := recordSpec{value: make([]byte, 1<<20)}
	var payload []byte
	for i := range int64(maxBatchBytes>>20 + 2) {
		record.delta = i
		payload = append(payload, record.encode()...)
	}
	for name, c := range compressors(t) {
		count := int32(maxBatchBytes>>20 + 2)
		set := batchSpec{attributes: c.codec, lastDelta: count - 1, count: count, payload: c.compress(payload)}.encode()
		batch, err := decodeSet(set, 0)
		if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "128 MiB") || len(batch.Records) < 100 && name != "snappy raw" {
			t.Errorf("%s: %d records, %v", name, len(batch.Records), err)
		}
	}
}

func TestARecordThatIsTooLongIsCut(t *testing.T) {
	long := recordSpec{delta: 1, time: 7, key: bytes.Repeat([]byte("k"), 3*keptKey), value: bytes.Repeat([]byte("v"), 10<<20), headers: []record.Header{{Key: "a", Value: []byte("b")}}}
	other := recordSpec{delta: 2, key: nil, value: bytes.Repeat([]byte("w"), 3<<20), headers: []record.Header{{Key: "a", Value: make([]byte, keptHeaders)}}}
	for name, c := range compressors(t) {
		if name == "snappy raw" {
			continue // the payload is larger than a block may be
		}
		payload := concat(recordSpec{value: []byte("first")}.encode(), long.encode(), other.encode(), recordSpec{delta: 3, value: []byte("last")}.encode())
		set := batchSpec{base: 10, attributes: c.codec, lastDelta: 3, count: 4, payload: c.compress(payload)}.encode()
		for _, from := range []int64{10, 11, 12, 13} {
			got, err := decodeSet(set, from)
			if err != nil || got.Next != 14 || len(got.Records) != int(14-from) {
				t.Fatalf("%s from %d: %d records, next %d: %v", name, from, len(got.Records), got.Next, err)
			}
			want := []record.Record{
				{Offset: 10, Value: []byte("first")},
				{Offset: 11, Timestamp: 7, Key: long.key[:keptKey], Value: long.value[:keptValue], Headers: []byte{2, 2, 'a', 2, 'b'}, Cut: int64(len(long.encode()) - 4)},
				{Offset: 12, Value: other.value[:keptValue], Cut: int64(len(other.encode()) - 4)},
				{Offset: 13, Value: []byte("last")},
			}
			if !reflect.DeepEqual(want[from-10:], got.Records) {
				t.Errorf("%s from %d: the records are others", name, from)
			}
		}
		for _, end := range []int{len(payload) - 1<<20, len(payload) - 3<<20 - 100, len(payload) - 8<<20} {
			set := batchSpec{base: 10, attributes: c.codec, lastDelta: 3, count: 4, payload: c.compress(payload[:end])}.encode()
			d := newTestDecoder(set, 10, 1<<20)
			got, err := decodePieces(d, Piece{1 << 20, 8192})
			if _, again := decodePieces(d, Piece{1 << 20, 8192}); !errors.Is(err, ErrCorrupt) || !errors.Is(again, ErrCorrupt) || len(got.Records) == 0 {
				t.Errorf("%s cut to %d: %d records, %v, then %v", name, end, len(got.Records), err, again)
			}
		}
	}
}

// TestRecordsBeforeADamagedOneComeFirst checks that an error within a record batch comes after the records before it. It comes
// again on each further read, with pieces of any size.
func TestRecordsBeforeADamagedOneComeFirst(t *testing.T) {
	for name, c := range compressors(t) {
		var payload []byte
		for i := range 300 {
			r := recordSpec{delta: int64(i), value: bytes.Repeat([]byte("x"), 500)}
			if i == 250 {
				r.delta = 3
			}
			payload = append(payload, r.encode()...)
		}
		set := batchSpec{attributes: c.codec, lastDelta: 299, count: 300, payload: c.compress(payload)}.encode()
		for _, pieceBytes := range []int{20_000, 1 << 20} {
			d := newTestDecoder(set, 0, pieceBytes)
			got, err := decodePieces(d, Piece{30_000, 40})
			if len(got.Records) != 250 || got.Next != 250 || !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %d records, next %d, %v", name, len(got.Records), got.Next, err)
			}
			if _, err := decodePieces(newTestDecoder(set, 250, pieceBytes), Piece{30_000, 40}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: from the damaged one: %v", name, err)
			}
		}
	}
}

// taken takes a batch from a reader that must have records at the offset.
func taken(t *testing.T, r *Reader, offset int64, most Piece) record.Batch {
	t.Helper()
	batch, err := r.Take(offset, most)
	if err != nil || len(batch.Records) == 0 {
		t.Fatal(batch, err)
	}
	return batch
}

// TestASetIsFreeWhenNothingReadsIt checks that a set is freed when the reader is closed and the last batch is released, in any
// order, and not before.
func TestASetIsFreeWhenNothingReadsIt(t *testing.T) {
	set := batchSpec{records: plainRecords(10)}.encode()
	m := NewMemory(Options{PieceBytes: 1 << 20, RecordBytes: 1 << 20})
	for name, end := range map[string]func(t *testing.T, r *Reader, first, second record.Batch, wantsNone func()){
		"the reader last": func(_ *testing.T, r *Reader, first, second record.Batch, wantsNone func()) {
			first.Release()
			second.Release()
			wantsNone()
			r.Close()
		},
		"the first batch last": func(t *testing.T, r *Reader, first, second record.Batch, wantsNone func()) {
			r.Close()
			second.Release()
			wantsNone()
			if !bytes.Equal(first.Records[0].Value, plainRecords(1)[0].value) {
				t.Errorf("%q", first.Records[0].Value)
			}
			first.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			freed := 0
			r := m.NewReader(Set{Partition: of, Bytes: bytes.Clone(set), End: 10, Free: func() { freed++ }})
			first := taken(t, r, 0, Piece{1 << 20, 4})
			second := taken(t, r, first.Next, Piece{1 << 20, 4})
			end(t, r, first, second, func() {
				if freed != 0 {
					t.Fatal("it was freed too early")
				}
			})
			if r.Close(); freed != 1 { // a second Close has no effect
				t.Errorf("it was freed %d times", freed)
			}
		})
	}
}

// TestABatchThatIsNotReleasedKeepsItsSet checks this because its records may still be in use.
func TestABatchThatIsNotReleasedKeepsItsSet(t *testing.T) {
	set := batchSpec{records: plainRecords(10)}.encode()
	m := NewMemory(Options{PieceBytes: 1 << 20, RecordBytes: 1 << 20})
	r := m.NewReader(Set{Partition: of, Bytes: set, End: 10, Free: func() { t.Error("it was freed") }})
	taken(t, r, 0, Piece{1 << 20, 4})
	taken(t, r, 0, Piece{1 << 20, 4}).Release()
	r.Close()
}

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
