package source

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// A record batch of format 2, the only one Kafka 4 writes, begins with these fields, big-endian, at these offsets.
const (
	batchBaseOffset  = 0  // int64
	batchLength      = 8  // int32, of what follows it
	batchMagic       = 16 // int8, after the int32 of the leader's epoch
	batchChecksum    = 17 // uint32, CRC-32C of what follows it
	batchAttributes  = 21 // int16
	batchLastDelta   = 23 // int32, last offset - base offset, kept when compaction removes the last record
	batchBaseTime    = 27 // int64
	batchMaxTime     = 35 // int64
	batchProducer    = 43 // int64, then the producer's epoch and the base sequence
	batchCount       = 57 // int32
	batchRecords     = 61
	batchLengthField = batchLength + 4
)

// The bits of a batch's attributes. Bit 0x40 says that the base time is a deletion horizon; record times are relative
// to it all the same.
const (
	attributeCodec         = 0x07
	attributeLogAppendTime = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20
)

const (
	// maxBatchBytes and maxBatchRecords bound what one record batch may unfold to.
	maxBatchBytes   = 128 << 20
	maxBatchRecords = 4 << 20
	// fullRecords ends a fetch after the record batch that reaches it: the rest is fetched again. So do decompressed
	// bytes beyond fullRatio times the size of the answer's buffers.
	fullRecords = 1 << 19
	fullRatio   = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decoder unfolds the record batches of one answer into a Batch. Every size and count in them is checked before it is
// believed.
type decoder struct {
	batch     *Batch // Next is the first offset still wanted
	aborted   abortedTransactions
	codecs    *codecs
	fullBytes int // of decompressed record batches
	unfolded  int
}

// decode reads a record set. On an error the record batches before the bad one are there and Next is the bad one's.
// The last batch may be cut off by the size that was asked for: it is left for the next fetch.
func (d *decoder) decode(set []byte) error {
	from := d.batch.Next
	for len(set) > batchMagic {
		size, err := d.extent(set)
		if err != nil {
			return err
		}
		if size > len(set) {
			break
		}
		if err := d.recordBatch(set[:size:size]); err != nil {
			return err
		}
		set = set[size:]
		if len(d.batch.Records) >= fullRecords || d.unfolded >= d.fullBytes {
			return nil
		}
	}
	if len(set) > 0 && d.batch.Next == from {
		return fmt.Errorf("%w: the first at offset %d is cut off after %d bytes", ErrCorrupt, from, len(set))
	}
	return nil
}

// extent is the size of the record batch that a set begins with. Older formats have the magic byte in the same place.
func (d *decoder) extent(set []byte) (int, error) {
	switch magic := set[batchMagic]; {
	case magic < 2:
		return 0, fmt.Errorf("%w at offset %d: format %d was last written by brokers before Kafka 0.11; copy the topic with a current producer",
			ErrUnreadable, d.batch.Next, magic)
	case magic > 2:
		return 0, fmt.Errorf("%w at offset %d: format %d is not known", ErrUnreadable, d.batch.Next, magic)
	}
	length := int(int32(binary.BigEndian.Uint32(set[batchLength:])))
	if length < batchRecords-batchLengthField {
		return 0, fmt.Errorf("%w at offset %d: it says it is %d bytes long", ErrCorrupt, d.batch.Next, length)
	}
	return batchLengthField + length, nil
}

// recordBatch takes one whole record batch and moves Next past it.
func (d *decoder) recordBatch(b []byte) error {
	if sum, want := crc32.Checksum(b[batchAttributes:], castagnoli), binary.BigEndian.Uint32(b[batchChecksum:]); sum != want {
		return fmt.Errorf("%w at offset %d: its checksum is %08x and says %08x", ErrCorrupt, d.batch.Next, sum, want)
	}
	h := parseBatchHeader(b)
	if h.base < 0 || h.base > math.MaxInt64-math.MaxInt32-1 || h.lastDelta < 0 {
		return fmt.Errorf("%w at offset %d: its offsets are %d and %d more", ErrCorrupt, d.batch.Next, h.base, h.lastDelta)
	}
	last := h.base + int64(h.lastDelta)
	if last < d.batch.Next {
		return nil
	}
	if err := d.contents(h, b[batchRecords:], last); err != nil {
		return fmt.Errorf("%w (record batch %d to %d)", err, h.base, last)
	}
	d.batch.Next = last + 1
	return nil
}

// contents gives out the records of a batch unless they are markers or aborted.
func (d *decoder) contents(h batchHeader, payload []byte, last int64) error {
	aborted := d.aborted.covers(h, last)
	if aborted && h.attributes&attributeControl == 0 || h.count == 0 {
		return nil
	}
	if codec := h.attributes & attributeCodec; codec != 0 {
		plain := d.batch.nextPlain()
		var err error
		if *plain, err = d.codecs.decompress((*plain)[:0], codec, payload); err != nil {
			return err
		}
		payload = *plain
		d.unfolded += len(payload)
	}
	if h.attributes&attributeControl != 0 {
		return d.marker(h, payload)
	}
	return d.records(h, payload)
}

// marker ends a transaction. An abort ends the skipping of its producer's batches too.
func (d *decoder) marker(h batchHeader, payload []byte) error {
	var marker Record
	size, at := varint(payload, 0)
	if at < 0 || size != int64(len(payload)-at) || !marker.parse(payload[at:]) || len(marker.Key) < 4 {
		return fmt.Errorf("%w: a marker of %d bytes", ErrCorrupt, len(payload))
	}
	const abort = 0
	if binary.BigEndian.Uint16(marker.Key[2:]) == abort {
		d.aborted.end(h.producer)
	}
	return nil
}

// records appends the batch's records from Next on, or none when one of them is wrong.
func (d *decoder) records(h batchHeader, payload []byte) error {
	switch {
	case h.count < 0 || int(h.count) > len(payload)/minRecordBytes:
		return fmt.Errorf("%w: %d records in %d bytes", ErrCorrupt, h.count, len(payload))
	case h.count > maxBatchRecords:
		return fmt.Errorf("%w: %d records, at most %d are taken", ErrUnreadable, h.count, maxBatchRecords)
	}
	records := slices.Grow(d.batch.Records, int(h.count))
	at, previous := 0, int64(-1)
	for i := range h.count {
		size, from := varint(payload, at)
		if from < 0 || size < 0 || size > int64(len(payload)-from) {
			return fmt.Errorf("%w: record %d of %d ends early", ErrCorrupt, i+1, h.count)
		}
		at = from + int(size)
		records = records[:len(records)+1]
		r := &records[len(records)-1]
		if !r.parse(payload[from:at:at]) || r.Offset <= previous || r.Offset > int64(h.lastDelta) {
			return fmt.Errorf("%w: record %d of %d is malformed", ErrCorrupt, i+1, h.count)
		}
		previous = r.Offset
		r.Offset += h.base
		r.Timestamp = h.time(r.Timestamp)
		if r.Offset < d.batch.Next {
			records = records[:len(records)-1]
		}
	}
	if at != len(payload) {
		return fmt.Errorf("%w: %d bytes after the last of %d records", ErrCorrupt, len(payload)-at, h.count)
	}
	d.batch.Records = records
	return nil
}

// batchHeader is what of a batch's first fields is of use here.
type batchHeader struct {
	base       int64
	attributes int16
	lastDelta  int32
	baseTime   int64
	maxTime    int64
	producer   int64
	count      int32
}

func parseBatchHeader(b []byte) batchHeader {
	return batchHeader{
		base:       int64(binary.BigEndian.Uint64(b[batchBaseOffset:])),
		attributes: int16(binary.BigEndian.Uint16(b[batchAttributes:])),
		lastDelta:  int32(binary.BigEndian.Uint32(b[batchLastDelta:])),
		baseTime:   int64(binary.BigEndian.Uint64(b[batchBaseTime:])),
		maxTime:    int64(binary.BigEndian.Uint64(b[batchMaxTime:])),
		producer:   int64(binary.BigEndian.Uint64(b[batchProducer:])),
		count:      int32(binary.BigEndian.Uint32(b[batchCount:])),
	}
}

// time is a record's: the broker's stamp for the whole batch, or the producer's as a difference to the base.
func (h *batchHeader) time(delta int64) int64 {
	if h.attributes&attributeLogAppendTime != 0 {
		return h.maxTime
	}
	return h.baseTime + delta
}
