package record

import (
	"encoding/binary"
	"time"
)

// Record is one record of a partition. Its bytes belong to whoever gave it out: a batch's are valid until its release.
type Record struct {
	Offset int64
	// Timestamp is in milliseconds since 1970: the producer's, or the broker's where the topic says LogAppendTime.
	Timestamp int64
	// Key and Value are nil where Kafka has null (a value: a tombstone), and empty where Kafka has an empty one.
	Key, Value []byte
	// Headers are the headers as Kafka encodes them, nil without any.
	Headers []byte
	// Cut is, when not 0, how many bytes the record has: more than are read, so that of key and value there is the beginning
	// only, and of headers none if they are long.
	Cut int64
	// Unreadable, when not empty, says why this is no record but a record batch that cannot be read and is skipped: Value is
	// the record batch as it came.
	Unreadable string
}

// Header is one header of a record. Keys may repeat, and order counts.
type Header struct {
	Key string `json:"key"`
	// Value is nil where Kafka has null.
	Value []byte `json:"value"`
}

// EncodeHeaders encodes headers as Kafka does; nil without any.
func EncodeHeaders(headers []Header) (raw []byte) {
	if len(headers) == 0 {
		return nil
	}
	raw = binary.AppendVarint(nil, int64(len(headers)))
	for _, h := range headers {
		raw = append(binary.AppendVarint(raw, int64(len(h.Key))), h.Key...)
		if h.Value == nil {
			raw = binary.AppendVarint(raw, -1)
			continue
		}
		raw = append(binary.AppendVarint(raw, int64(len(h.Value))), h.Value...)
	}
	return raw
}

// Batch is a piece of a partition's log.
type Batch struct {
	// Records ascend by offset; there may be gaps.
	Records []Record
	// Next is the position after the batch, past everything it covers: transaction markers, aborted records, offsets that
	// compaction has emptied. Equal to the offset asked for: nothing came.
	Next int64
	// End is the end of the log, as far as it may be read. High is the log's end, which is beyond that while a transaction is open;
	// less than End: not known.
	End, High int64
	// More means that the broker's answer brought more than this piece, which is at hand.
	More bool
	// Bytes is the memory that the batch holds until its release, Left what stays at hand after it.
	Bytes, Left int64
	// Release gives the memory back. Nil means that there is nothing to do. Call it at most once; the records are gone after it.
	Release func()
}

// Bounds are offsets of a log: the first, the one after the last that may be read, the high watermark, which is beyond that
// while a transaction is open, and the configured start (KAFKA_START).
type Bounds struct{ First, End, High, Start int64 }

// ExceededBy reports whether an offset is beyond the log's end. The bounds were asked for one after the other: what comes
// meanwhile may lie beyond End.
func (b Bounds) ExceededBy(offset int64) bool { return offset > max(b.End, b.High, b.Start) }

// Transaction is one of a producer that is open: records behind its first one cannot be read before it ends.
type Transaction struct {
	// Producer is the id of its producer, First the offset of its first record in the partition.
	Producer int64
	First    int64
	// ID is its transactional id. Empty means that it is not known.
	ID string
	// Since is when it was begun. Zero means that it is not known.
	Since time.Time
}
