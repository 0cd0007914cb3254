package recordbatch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"waterwheel/internal/record"
)

// A record batch of format 2, which is the only format of Kafka 4, begins with these fields, big-endian, at these offsets.
const (
	batchBaseOffset  = 0  // int64
	batchLength      = 8  // int32, of the bytes that follow it
	batchMagic       = 16 // int8, after the int32 of the leader's epoch
	batchChecksum    = 17 // uint32, CRC-32C of the bytes that follow it
	batchAttributes  = 21 // int16
	batchLastDelta   = 23 // int32, last offset - base offset, kept when compaction removes the last record
	batchBaseTime    = 27 // int64
	batchMaxTime     = 35 // int64
	batchProducer    = 43 // int64, then the producer's epoch and the base sequence
	batchCount       = 57 // int32
	batchRecords     = 61
	batchLengthField = batchLength + 4
)

// The bits of a batch's attributes. Bit 0x40 says that the base time is a deletion horizon. Record times are relative to it all
// the same.
const (
	attributeCodec         = 0x07
	attributeLogAppendTime = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20
)

// maxBatchBytes and maxBatchRecords bound what one record batch may unfold to.
const (
	maxBatchBytes   = 128 << 20
	maxBatchRecords = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// decoder decodes the record batches of one set piece by piece. It checks every size and count in them before it uses them. After
// an error it stands where it stood before.
type decoder struct {
	*Memory
	set     []byte // record batches that are not begun yet
	next    int64  // the first offset still wanted
	first   int64  // the first offset that the decoder was asked for
	aborted abortedTransactions
	open    *openBatch // the record batch that is being given out. Nil means none.
}

// piece fills a piece with the next records. On an error the piece has the records before the bad place, and the next call
// returns the error. The fetch size may cut off the last record batch, which is left for the next fetch.
func (d *decoder) piece(p *piece, most Piece) error {
	from := d.next
	err := d.fill(p, most)
	if len(p.records) > 0 || d.next > from {
		return nil
	}
	return err
}

func (d *decoder) fill(p *piece, most Piece) error {
	for len(p.records) < most.Records && p.bytes < most.Bytes {
		if d.open == nil {
			if began, err := d.begin(p); err != nil || !began {
				return err
			}
			continue // the batch may have no records to give out
		}
		done, err := d.records(p, most)
		if err != nil {
			return d.unreadable(d.open.raw, fmt.Errorf("%w (record batch of offsets %d to %d)", err, d.open.header.base, d.open.last))
		}
		if !done {
			return nil
		}
		d.next = d.open.last + 1
		d.close()
	}
	return nil
}

// begin goes to the next record batch. False means that no complete one is left.
func (d *decoder) begin(p *piece) (bool, error) {
	if !d.more() {
		if len(d.set) > 0 && d.next == d.first {
			return false, d.unreadable(d.set, fmt.Errorf("%w: the first batch, at offset %d, is truncated after %d bytes", ErrCorrupt, d.next, len(d.set)))
		}
		return false, nil
	}
	size, err := d.extent()
	if err != nil {
		return false, d.unreadable(d.set, err)
	}
	if err := d.recordBatch(p, d.set[:size:size]); err != nil {
		return false, d.unreadable(d.set[:size:size], err)
	}
	d.set = d.set[size:]
	return true, nil
}

// more reports whether anything is left to give out, or an error to return.
func (d *decoder) more() bool {
	if d.open != nil {
		return true
	}
	if len(d.set) <= batchMagic {
		return false
	}
	size, err := d.extent()
	return err != nil || size <= len(d.set)
}

// kept is the memory in bytes that is held between two pieces, without the set.
func (d *decoder) kept() int64 {
	if d.open == nil || d.open.codec() == 0 {
		return 0
	}
	return int64(cap(d.open.plain))
}

// close ends the record batch that is being given out.
func (d *decoder) close() {
	if d.open != nil {
		d.unfolders.forget(d.open)
		d.open = nil
	}
}

// extent returns the size of the next record batch. Older formats have the magic byte in the same place.
func (d *decoder) extent() (int, error) {
	switch magic := d.set[batchMagic]; {
	case magic < 2:
		return 0, fmt.Errorf("%w at offset %d: message format %d is older than Kafka 0.11; copy the records to a new topic with a current producer",
			ErrUnreadable, d.next, magic)
	case magic > 2:
		return 0, fmt.Errorf("%w at offset %d: message format %d is not supported; use a newer version of waterwheel", ErrUnreadable, d.next, magic)
	}
	length := int(int32(binary.BigEndian.Uint32(d.set[batchLength:])))
	if length < batchRecords-batchLengthField {
		return 0, fmt.Errorf("%w at offset %d: its header says that it has %d bytes", ErrCorrupt, d.next, length)
	}
	return batchLengthField + length, nil
}

// recordBatch opens one complete record batch, or moves past it.
func (d *decoder) recordBatch(p *piece, raw []byte) error {
	if sum, want := crc32.Checksum(raw[batchAttributes:], castagnoli), binary.BigEndian.Uint32(raw[batchChecksum:]); sum != want {
		return fmt.Errorf("%w at offset %d: its checksum is %08x, but its header says %08x", ErrCorrupt, d.next, sum, want)
	}
	h := parseBatchHeader(raw)
	if h.base < 0 || h.base > math.MaxInt64-math.MaxInt32-1 || h.lastDelta < 0 {
		return fmt.Errorf("%w at offset %d: its header is invalid: base offset %d, last offset delta %d", ErrCorrupt, d.next, h.base, h.lastDelta)
	}
	last := h.base + int64(h.lastDelta)
	aborted := d.aborted.covers(h, last)
	var err error
	switch {
	case h.count == 0: // compaction has emptied the batch, which may be a marker
	case h.attributes&attributeControl != 0:
		err = d.marker(h, raw[batchRecords:])
	case aborted || last < d.next:
	default:
		d.open, err = d.openBatch(p, h, raw)
	}
	if err != nil {
		return fmt.Errorf("%w (record batch of offsets %d to %d)", err, h.base, last)
	}
	if d.open == nil {
		d.next = max(d.next, last+1)
	}
	return nil
}

// openBatch opens a record batch and unfolds it if it fits into one piece.
func (d *decoder) openBatch(p *piece, h batchHeader, raw []byte) (*openBatch, error) {
	payload := raw[batchRecords:]
	o := &openBatch{header: h, last: h.base + int64(h.lastDelta), delta: -1, raw: raw, packed: payload}
	if o.codec() == 0 {
		o.plain, o.whole = payload, true
	} else {
		plain := p.nextPlain()
		var err error
		*plain, err = d.unfold(*plain, o.codec(), payload)
		switch {
		case err == nil:
			o.plain, o.whole, o.inPiece = *plain, true, p
		case errors.Is(err, errTooLarge):
			p.used-- // the batch is unfolded piece by piece
		default:
			return nil, err
		}
	}
	switch {
	case h.count < 0 || o.whole && int(h.count) > len(o.plain)/minRecordBytes:
		return nil, fmt.Errorf("%w: %d records in %d bytes", ErrCorrupt, h.count, len(o.plain))
	case h.count > maxBatchRecords:
		return nil, fmt.Errorf("%w: %d records, but at most %d are allowed", ErrUnreadable, h.count, maxBatchRecords)
	}
	return o, nil
}

// unfold decompresses a payload whole.
func (d *decoder) unfold(buffer []byte, codec int16, payload []byte) ([]byte, error) {
	c := d.codecs.Get().(*codecs)
	defer d.codecs.Put(c)
	return c.decompress(buffer[:0], codec, payload)
}

// marker ends a transaction. An abort marker also ends the skipping of its producer's batches.
func (d *decoder) marker(h batchHeader, payload []byte) error {
	if codec := h.attributes & attributeCodec; codec != 0 {
		var err error
		if payload, err = d.unfold(nil, codec, payload); errors.Is(err, errTooLarge) {
			return fmt.Errorf("%w: a transaction marker that decompresses to more than %d bytes", ErrUnreadable, d.options.PieceBytes)
		}
		if err != nil {
			return err
		}
	}
	var marker record.Record
	size, at := varint(payload, 0)
	if at < 0 || size != int64(len(payload)-at) || !parseRecord(&marker, payload[at:]) || len(marker.Key) < 4 {
		return fmt.Errorf("%w: a malformed transaction marker of %d bytes", ErrCorrupt, len(payload))
	}
	const abort = 0
	if binary.BigEndian.Uint16(marker.Key[2:]) == abort {
		d.aborted.end(h.producer)
	}
	return nil
}

// batchHeader holds the needed header fields of a batch.
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

// time returns a record's time: the broker's timestamp of the whole batch, or the producer's as a difference to the base.
func (h *batchHeader) time(delta int64) int64 {
	if h.attributes&attributeLogAppendTime != 0 {
		return h.maxTime
	}
	return h.baseTime + delta
}

// Aborted is an aborted transaction. The producer's transactional batches from offset First up to its next abort marker do not
// count.
type Aborted struct {
	Producer, First int64
}

// abortedTransactions follows the record batches of one answer in their order.
type abortedTransactions struct {
	coming []Aborted // by first offset
	active []int64   // producers inside an aborted transaction; hardly ever more than a few
}

// newAbortedTransactions takes the list of a fetch answer. Brokers order it by abort marker, not by first offset.
func newAbortedTransactions(list []Aborted) abortedTransactions {
	slices.SortFunc(list, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
	return abortedTransactions{coming: list}
}

// covers advances to a batch and reports whether the batch belongs to an aborted transaction.
func (a *abortedTransactions) covers(h batchHeader, last int64) bool {
	for len(a.coming) > 0 && a.coming[0].First <= last {
		if producer := a.coming[0].Producer; !slices.Contains(a.active, producer) {
			a.active = append(a.active, producer)
		}
		a.coming = a.coming[1:]
	}
	return h.attributes&attributeTransactional != 0 && slices.Contains(a.active, h.producer)
}

// end handles the abort marker of a producer.
func (a *abortedTransactions) end(producer int64) {
	if i := slices.Index(a.active, producer); i >= 0 {
		a.active = slices.Delete(a.active, i, i+1)
	}
}
