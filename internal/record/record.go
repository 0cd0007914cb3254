// Package record has the types about Kafka that all packages share. They are partitions and places in them, records, batches,
// letters, commits, and the error that stops a partition. It only defines and formats them.
package record

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Partition is a partition of a topic, by name.
type Partition struct {
	Topic  string `json:"topic"`
	Number int32  `json:"partition"`
}

// String returns topic/partition.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Number) }

// Compare orders partitions by topic, then by number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// Place is the place of a record.
type Place struct {
	Partition
	Offset int64 `json:"offset"`
}

// String returns topic/partition/offset.
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Partition, p.Offset) }

// ParsePlace parses topic/partition/offset. The error continues a sentence that begins with the text.
func ParsePlace(text string) (Place, error) {
	parts := strings.Split(text, "/") // a topic's name has no slash
	if len(parts) != 3 || parts[0] == "" {
		return Place{}, errNoPlace
	}
	number, wrong := strconv.ParseUint(parts[1], 10, 31)
	offset, err := strconv.ParseUint(parts[2], 10, 63)
	if wrong != nil || err != nil {
		return Place{}, errNoPlace
	}
	return Place{Partition{parts[0], int32(number)}, int64(offset)}, nil
}

var errNoPlace = errors.New("is not a position: write TOPIC/PARTITION/OFFSET, as events/3/182")

// FormatTopicID formats a topic id as Kafka's own tools do.
func FormatTopicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Record is one record of a partition. The code that returns it owns its bytes. Those of a Batch are valid until its Release.
type Record struct {
	Offset int64
	// Timestamp is in milliseconds since 1970. It comes from the producer, or from the broker if the topic uses LogAppendTime.
	Timestamp int64
	// Key and Value are nil if they are null in Kafka, and empty if they are empty in Kafka. A null value is a tombstone.
	Key, Value []byte
	// Headers are the headers as Kafka encodes them. Nil means that there are none.
	Headers []byte
	// Cut is not zero if the record is longer than allowed. Then it is the record's length in bytes. Key and value have only
	// their beginnings, and long headers are missing.
	Cut int64
	// Unreadable is not empty if this is not a record but a skipped record batch. Then it says why the batch cannot be read, and
	// Value is the record batch as it came.
	Unreadable string
}

// FirstMillis and LastMillis are the first and the last millisecond of the years 0 to 9999, since 1970. RFC 3339 and JSON have no
// text for other times.
const (
	FirstMillis = -62_167_219_200_000
	LastMillis  = 253_402_300_799_999
)

// Time returns the time of a timestamp in milliseconds since 1970, within the years 0 to 9999. A producer that counts in
// microseconds writes later timestamps.
func Time(timestamp int64) time.Time {
	return time.UnixMilli(min(max(timestamp, FirstMillis), LastMillis)).UTC()
}

// Header is one header of a record. Keys may repeat, and the order matters.
type Header struct {
	Key string `json:"key"`
	// Value is nil if it is null in Kafka.
	Value []byte `json:"value"`
}

// EncodeHeaders encodes headers as Kafka does. It returns nil if there are none.
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
	// Records are in ascending order of offsets, possibly with gaps.
	Records []Record
	// Next is the offset after the batch. It is past everything that the batch covers: transaction markers, aborted records, and
	// offsets that compaction has emptied. If it equals the requested offset, nothing came.
	Next int64
	// End is the end of the readable part of the log. High is the log's end, which is larger while a transaction is open. A High
	// below End means that it is unknown.
	End, High int64
	// More means that the broker's answer has more pieces than this one. They are available without a request.
	More bool
	// Bytes is the memory that the batch holds until its release. Left is the memory that the pieces after it hold.
	Bytes, Left int64
	// Release frees the memory. Nil means that there is nothing to free. Call it at most once, and do not use the records after
	// it.
	Release func()
}

// Bounds are offsets of a log: the first one, the end of the readable part, the high watermark, and the configured start
// (KAFKA_START). The high watermark is larger than End while a transaction is open.
type Bounds struct{ First, End, High, Start int64 }

// ExceededBy reports whether an offset is beyond the log's end. The bounds were requested one after the other, so records that
// came in between may be beyond End.
func (b Bounds) ExceededBy(offset int64) bool { return offset > max(b.End, b.High, b.Start) }

// Transaction is an open transaction of a producer. Records after its first one cannot be read before it ends.
type Transaction struct {
	// Producer is the id of its producer. First is the offset of its first record in the partition.
	Producer int64
	First    int64
	// ID is its transactional id. Empty means unknown.
	ID string
	// Since is when it began. Zero means unknown.
	Since time.Time
}

// WholeRecord is the Part of a letter that stands for a whole record, and not for one element of an array record.
const WholeRecord int32 = -1

// DeadLetter is a record, or one element of an array record, that cannot be stored.
type DeadLetter struct {
	// Place, TopicID and Part identify the source of the letter. If two letters are equal in them, the letter was produced twice.
	// TopicID is zero if it is unknown.
	Place
	TopicID [16]byte
	Part    int32 // index of the element, or WholeRecord
	// Timestamp is the record's timestamp, in milliseconds since 1970.
	Timestamp int64
	// Key, Value and Headers are those of the record. If Part is not WholeRecord, Value has only the bytes of the element.
	// Headers are as Kafka encodes them. Letters of one record share its key and headers.
	Key, Value, Headers []byte
	// Reason is one of the values of measurement.Reason. Message is one sentence.
	Reason, Message string
	// RefusedByDatabase means that MongoDB rejected the measurement. Otherwise the record could not be decoded.
	RefusedByDatabase bool
	// Cut says what part of the record is missing in the letter. Empty means nothing. A letter with a Cut cannot be driven back.
	Cut string
}

// Commit is an offset that a group commits for a partition. Everything before the offset is done.
type Commit struct {
	Place
	// Metadata says what pipeline the offset belongs to, see claim.Provenance.
	Metadata string
}

// These are errors of reading a log that its reader handles.
var (
	// ErrOutOfRange means that the offset is outside the log.
	ErrOutOfRange = errors.New("the offset is outside the log")
	// ErrTopicGone means that the topic id does not exist, or no longer exists.
	ErrTopicGone = errors.New("the topic id is unknown")
)

// StopError stops a partition until an operator acts. A retry does not help, and continuing would lose or double records.
type StopError struct {
	// Reason is a short label for metrics and status. Detail is a sentence for people that says what to do.
	Reason, Detail string
}

// Error gives the sentence.
func (e *StopError) Error() string { return e.Detail }
