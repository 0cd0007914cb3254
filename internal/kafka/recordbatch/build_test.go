package recordbatch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"waterwheel/internal/record"
)

// recordSpec is a record to encode. Its offset and time are relative to the batch.
type recordSpec struct {
	delta      int64
	time       int64
	key, value []byte
	headers    []record.Header
}

func (s recordSpec) encode() []byte {
	b := []byte{0} // attributes
	b = binary.AppendVarint(b, s.time)
	b = binary.AppendVarint(b, s.delta)
	b = appendField(b, s.key)
	b = appendField(b, s.value)
	b = binary.AppendVarint(b, int64(len(s.headers)))
	for _, h := range s.headers {
		b = appendField(b, []byte(h.Key))
		b = appendField(b, h.Value)
	}
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

func appendField(b, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(field))), field...)
}

// batchSpec is a record batch to encode. The count and the last offset are derived from the records if they are zero.
type batchSpec struct {
	base       int64
	attributes int16
	lastDelta  int32
	baseTime   int64
	maxTime    int64
	producer   int64
	count      int32
	records    []recordSpec
	payload    []byte // instead of the records
}

func (s batchSpec) encode() []byte {
	payload := s.payload
	if payload == nil {
		for _, r := range s.records {
			payload = append(payload, r.encode()...)
			s.lastDelta = max(s.lastDelta, int32(r.delta))
		}
	}
	if s.count == 0 {
		s.count = int32(len(s.records))
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.base))
	b = binary.BigEndian.AppendUint32(b, uint32(batchRecords-batchLengthField+len(payload)))
	b = binary.BigEndian.AppendUint32(b, 7) // leader epoch
	b = append(b, 2)
	b = binary.BigEndian.AppendUint32(b, 0) // checksum
	b = binary.BigEndian.AppendUint16(b, uint16(s.attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(s.lastDelta))
	b = binary.BigEndian.AppendUint64(b, uint64(s.baseTime))
	b = binary.BigEndian.AppendUint64(b, uint64(s.maxTime))
	b = binary.BigEndian.AppendUint64(b, uint64(s.producer))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(s.count))
	return seal(append(b, payload...))
}

// seal corrects a batch's checksum.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[batchChecksum:], crc32.Checksum(b[batchAttributes:], castagnoli))
	return b
}

// marker returns a control batch.
func marker(base, producer int64, kind uint16) []byte {
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	return batchSpec{
		base: base, attributes: attributeControl | attributeTransactional, producer: producer,
		records: []recordSpec{{key: key, value: []byte{0, 0, 0, 0, 0, 1}}},
	}.encode()
}

const (
	abortMarker  = 0
	commitMarker = 1
)

// transactional returns a batch of a transaction. Each value is the last digit of its record's number within the batch.
func transactional(base, producer int64, count int) []byte {
	return batchSpec{base: base, attributes: attributeTransactional, producer: producer, records: plainRecords(count)}.encode()
}

func plainRecords(count int) []recordSpec {
	records := make([]recordSpec, count)
	for i := range records {
		records[i] = recordSpec{delta: int64(i), time: int64(i), key: []byte("key"), value: []byte{byte('0' + i%10)}}
	}
	return records
}

// compressors returns functions that compress as producers do, by codec and framing.
func compressors(t testing.TB) map[string]struct {
	codec    int16
	compress func([]byte) []byte
} {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	return map[string]struct {
		codec    int16
		compress func([]byte) []byte
	}{
		"gzip": {codecGzip, func(b []byte) []byte {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, err := w.Write(b)
			must(err)
			must(w.Close())
			return out.Bytes()
		}},
		"snappy raw": {codecSnappy, func(b []byte) []byte { return snappy.Encode(nil, b) }},
		"snappy xerial": {codecSnappy, func(b []byte) []byte {
			out := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
			for len(b) > 0 {
				n := min(len(b), 32<<10)
				block := snappy.Encode(nil, b[:n])
				out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
				b = b[n:]
			}
			return out
		}},
		"lz4": {codecLZ4, func(b []byte) []byte {
			var out bytes.Buffer
			w := lz4.NewWriter(&out)
			_, err := w.Write(b)
			must(err)
			must(w.Close())
			return out.Bytes()
		}},
		"zstd": {codecZstd, func(b []byte) []byte {
			w, err := zstd.NewWriter(nil)
			must(err)
			return w.EncodeAll(b, nil)
		}},
	}
}

// concat joins record batches to one set.
func concat(batches ...[]byte) []byte { return bytes.Join(batches, nil) }

// newTestDecoder returns a decoder of a set from an offset on.
func newTestDecoder(set []byte, from int64, pieceBytes int, aborted ...Aborted) *decoder {
	m := NewMemory(Options{PieceBytes: pieceBytes, RecordBytes: 2 * pieceBytes})
	return &decoder{Memory: m, set: set, next: from, first: from, aborted: newAbortedTransactions(aborted)}
}

// decodeSet decodes a set from an offset on, up to the first error.
func decodeSet(set []byte, from int64, aborted ...Aborted) (record.Batch, error) {
	return decodePieces(newTestDecoder(set, from, 1<<20, aborted...), Piece{1 << 20, 8192})
}

// decodePieces joins all pieces to one batch.
func decodePieces(d *decoder, most Piece) (record.Batch, error) {
	all := record.Batch{Next: d.next}
	for {
		p := new(piece)
		if err := d.piece(p, most); err != nil {
			return all, err
		}
		if len(p.records) == 0 && d.next == all.Next {
			return all, nil
		}
		all.Records, all.Next = append(all.Records, p.records...), d.next
	}
}

// offsets returns the offsets of a batch's records.
func offsets(b record.Batch) []int64 {
	var list []int64
	for _, r := range b.Records {
		list = append(list, r.Offset)
	}
	return list
}
