package timeseries

import (
	"bytes"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// SeriesIndex is the key of the index that finds the buckets of a series in the order of their times.
func (o Options) SeriesIndex() bson.D {
	return bson.D{{Key: FieldMeta, Value: 1}, {Key: MinPath(o.TimeField), Value: 1}}
}

// SourceIndex is the key of the index that finds what is stored of a source partition, in the order of the largest offsets.
func SourceIndex() bson.D {
	return bson.D{{Key: PathTopicID, Value: 1}, {Key: PathPartition, Value: 1}, {Key: PathLast, Value: 1}}
}

// OfSource are the conditions that a document holds measurements of a source partition.
func OfSource(source Source) bson.D {
	return bson.D{{Key: PathTopicID, Value: UUID(source.TopicID)}, {Key: PathPartition, Value: source.Partition}}
}

// Listing are the conditions that a document of a source may list offsets from first to last. A comparison finds only numbers: a
// document whose smallest or largest offset was taken out, or made a text or null, may list anything, and it must not be passed over
// (E2). So the conditions say what is not wanted; the index serves them as well.
func Listing(source Source, first, last int64) bson.D {
	not := func(comparison string, with int64) bson.D {
		return bson.D{{Key: "$not", Value: bson.D{{Key: comparison, Value: with}}}}
	}
	return append(OfSource(source), bson.E{Key: PathLast, Value: not("$lt", first)}, bson.E{Key: PathFirst, Value: not("$gt", last)})
}

// FullKey are the conditions that find one document: its _id, and its shard key. A router of a sharded cluster sends an update or a
// delete without the shard key to all shards, and without a version: beside the move of a chunk it may change only a copy that
// is no longer the document, and report success.
func FullKey(id any, meta bson.RawValue, timeField string, least bson.RawValue) bson.D {
	return bson.D{{Key: FieldID, Value: id}, HasMeta(meta), IsAsRead(MinPath(timeField), least)}
}

// HasMeta is the condition that a document has this meta, or one that compares equal. Type 0 means none.
func HasMeta(meta bson.RawValue) bson.E { return IsAsRead(FieldMeta, meta) }

// IsAsRead is the condition that a field has the value that was read of it, or one that compares equal. Type 0 means that the field was
// not there. Values that people wrote may look like conditions.
func IsAsRead(path string, value bson.RawValue) bson.E {
	switch {
	case value.Type == 0:
		return IsAbsent(path)
	case isCondition(value):
		return bson.E{Key: path, Value: bson.D{{Key: "$eq", Value: value}}}
	}
	return bson.E{Key: path, Value: value} // which every server finds quickly beside an _id
}

// isCondition reports whether a query takes a value for a condition.
func isCondition(v bson.RawValue) bool {
	if v.Type != bson.TypeEmbeddedDocument {
		return v.Type == bson.TypeRegex
	}
	first, err := v.Document().IndexErr(0)
	return err == nil && strings.HasPrefix(first.Key(), "$")
}

// IsAbsent is the condition that a field is not there.
func IsAbsent(path string) bson.E {
	return bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: false}}}
}

// IsPresent is the condition that a field is there.
func IsPresent(path string) bson.E {
	return bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: true}}}
}

// Never is later than any moment of a query: a bucket that is visible from then on is hidden for good.
var Never = bson.NewDateTimeFromTime(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))

// Key is the binary key of a meta or an _id: exactly this value, its type and its bytes. A query finds also what only compares equal. Empty
// means none.
func Key(v bson.RawValue) string {
	if v.Type == 0 {
		return ""
	}
	return string(byte(v.Type)) + string(v.Value)
}

// Clone copies a value, which then does not depend on its document.
func Clone(v bson.RawValue) bson.RawValue {
	v.Value = bytes.Clone(v.Value)
	return v
}

// UUID is an id as documents have it.
func UUID(id [16]byte) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

// UUIDIn is the id in a field of a document. A field of another type reads as zero.
func UUIDIn(d bson.Raw, field string) (id [16]byte) {
	if _, data, ok := d.Lookup(field).BinaryOK(); ok && len(data) == len(id) {
		copy(id[:], data)
	}
	return id
}
