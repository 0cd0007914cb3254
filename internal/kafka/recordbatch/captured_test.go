package recordbatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"waterwheel/internal/record"
)

// capturedRecord returns the record at an offset, which is the same in each captured record batch.
func capturedRecord(offset int) record.Record {
	return record.Record{
		Offset: int64(offset), Timestamp: 1772366400000 + int64(offset)*1000,
		Key: fmt.Appendf(nil, "s-%02d", offset%16),
		Value: fmt.Appendf(nil, `{"time":"2026-03-01T12:%02d:%02d.000Z","meta":{"sensor":"s-%02d","site":"north"},"celsius":%d.5,"humidity":%d,"comment":"%s"}`,
			offset/60%60, offset%60, offset%16, offset*offset%40, offset*7%100, strings.Repeat("nothing to say about this one. ", offset%16*4)),
	}
}

// captured calls each with every record batch of testdata and its records.
func captured(t *testing.T, each func(name string, batch []byte, want []record.Record)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.batch")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		batch, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]record.Record, parseBatchHeader(batch).count)
		for i := range want {
			want[i] = capturedRecord(i)
		}
		each(strings.TrimSuffix(filepath.Base(file), ".batch"), batch, want)
	}
}

// blockSizes holds the size of the blocks that producers compress, or a multiple of it, by codec.
var blockSizes = map[int16]int{codecGzip: 256 << 10, codecSnappy: 128 << 10, codecLZ4: 64 << 10, codecZstd: 128 << 10}

// pieceSizes returns sizes of pieces for a payload that unfolds to so many bytes. They are around the ends of its blocks and
// around its own end, those under MEMORY_LIMIT=32MiB to 512MiB, and a random one.
func pieceSizes(rnd *rand.Rand, codec int16, unfolded int) []int {
	var sizes []int
	for at := blockSizes[codec]; at < unfolded+blockSizes[codec]; at += blockSizes[codec] {
		sizes = append(sizes, at-1, at, at+1)
	}
	sizes = append(sizes, 16<<10+rnd.IntN(unfolded))
	for limit := 32 << 20; limit <= 512<<20; limit *= 2 {
		sizes = append(sizes, min(limit/100*60/256, 1<<20))
	}
	return append(sizes, unfolded-1, unfolded, unfolded+1)
}

// TestBatchesOfOtherProducersAreReadInPiecesOfEverySize checks that a correct batch is read with any size of a piece, wherever
// the piece ends within a block of the codec.
func TestBatchesOfOtherProducersAreReadInPiecesOfEverySize(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	captured(t, func(name string, batch []byte, want []record.Record) {
		t.Run(name, func(t *testing.T) {
			codec := parseBatchHeader(batch).attributes & attributeCodec
			plain, err := (&codecs{limit: 2 << 20}).decompress(nil, codec, batch[batchRecords:])
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range pieceSizes(rnd, codec, len(plain)) {
				readInPieces(t, batch, want, size)
			}
		})
	})
}

// readInPieces reads a record batch in pieces of a size, and compares its records.
func readInPieces(t *testing.T, batch []byte, want []record.Record, size int) {
	t.Helper()
	got, err := decodePieces(newTestDecoder(batch, 0, size), PieceOf(size))
	if err != nil {
		t.Fatalf("pieces of %d bytes: %v", size, err)
	}
	if !reflect.DeepEqual(got.Records, want) {
		t.Fatalf("pieces of %d bytes: %d records that are not the %d that were written", size, len(got.Records), len(want))
	}
}

// TestZstdIsReadInPiecesOfEverySizeAtEveryLevel checks the same for every level of Go's zstd encoder, with and without the size
// of the content in front of it.
func TestZstdIsReadInPiecesOfEverySizeAtEveryLevel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var payload []byte
	want := make([]record.Record, 1000)
	for i := range want {
		want[i] = capturedRecord(i)
		payload = append(payload, recordSpec{delta: int64(i), time: want[i].Timestamp, key: want[i].Key, value: want[i].Value}.encode()...)
	}
	for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		var streamed strings.Builder
		w.Reset(&streamed)
		for rest := payload; len(rest) > 0; { // in several writes, because otherwise the encoder knows the size
			n := min(len(rest), 100_000)
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for name, packed := range map[string][]byte{"whole": w.EncodeAll(payload, nil), "streamed": []byte(streamed.String())} {
			t.Run(fmt.Sprint(level, " ", name), func(t *testing.T) {
				batch := batchSpec{attributes: codecZstd, lastDelta: 999, count: 1000, payload: packed}.encode()
				for _, size := range pieceSizes(rnd, codecZstd, len(payload)) {
					readInPieces(t, batch, want, size)
				}
			})
		}
	}
}

// TestDamageIsCalledCorruptInPiecesOfEverySize checks that a damaged payload with a correct checksum is reported as corrupt, with
// any size of a piece. The message must say how to skip it.
func TestDamageIsCalledCorruptInPiecesOfEverySize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	captured(t, func(name string, batch []byte, want []record.Record) {
		cut := batchSpec{
			attributes: parseBatchHeader(batch).attributes, lastDelta: int32(len(want) - 1), count: int32(len(want)),
			baseTime: want[0].Timestamp, payload: batch[batchRecords : batchRecords+(len(batch)-batchRecords)*2/3],
		}.encode()
		for _, size := range pieceSizes(rnd, parseBatchHeader(batch).attributes&attributeCodec, 256<<10) {
			m := NewMemory(Options{PieceBytes: size, RecordBytes: 2 << 20})
			r := m.NewReader(Set{Partition: of, Bytes: cut, End: int64(len(want))})
			var err error
			for next := int64(0); err == nil; {
				var b record.Batch
				if b, err = r.Take(next, PieceOf(size)); err != nil {
					break
				}
				if !reflect.DeepEqual(b.Records, want[next:b.Next]) {
					t.Fatalf("%s in pieces of %d: other records from %d on", name, size, next)
				}
				next = b.Next
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "KAFKA_SKIP_CORRUPT=") {
				t.Errorf("%s in pieces of %d: %v", name, size, err)
			}
		}
	})
}

// TestAWideWindowIsReadUnderEveryMemoryLimit checks batches that refer back farther than a stream may, with any size of a piece.
// A batch is read if it unfolds to no more than that distance. Otherwise the error names the reason.
func TestAWideWindowIsReadUnderEveryMemoryLimit(t *testing.T) {
	for _, test := range []struct {
		records int
		read    bool
	}{{7, true}, {9, false}} {
		var payload []byte
		for i := range test.records {
			payload = append(payload, recordSpec{delta: int64(i), value: make([]byte, 1<<20)}.encode()...)
		}
		var packed strings.Builder
		w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for at := range test.records {
			if _, err := w.Write(payload[at*len(payload)/test.records : (at+1)*len(payload)/test.records]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		batch := batchSpec{attributes: codecZstd, lastDelta: int32(test.records - 1), count: int32(test.records), payload: []byte(packed.String())}.encode()
		for _, size := range []int{80_000, 1 << 20} {
			d := newTestDecoder(batch, 0, size)
			d.options.RecordBytes = 2 << 20
			got, err := decodePieces(d, PieceOf(size))
			switch {
			case test.read && (err != nil || len(got.Records) != test.records):
				t.Errorf("pieces of %d: %d records of %d, %v", size, len(got.Records), test.records, err)
			case !test.read && (!errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "compression window of more than 8 MiB")):
				t.Errorf("pieces of %d, %d records: %v", size, test.records, err)
			}
		}
	}
}
