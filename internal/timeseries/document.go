package timeseries

import (
	"bytes"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// SeriesIndex returns the key of the index that finds the buckets of a series in the order of their times.
func (o Options) SeriesIndex() bson.D {
	return bson.D{{Key: FieldMeta, Value: 1}, {Key: MinPath(o.TimeField), Value: 1}}
}

// SourceIndex returns the key of the index that finds the documents of a source partition in the order of their largest offsets.
func SourceIndex() bson.D {
	return bson.D{{Key: PathTopicID, Value: 1}, {Key: PathPartition, Value: 1}, {Key: PathLast, Value: 1}}
}

// OfSource returns the conditions that a document holds measurements of a source partition.
func OfSource(source Source) bson.D {
	return bson.D{{Key: PathTopicID, Value: UUID(source.TopicID)}, {Key: PathPartition, Value: source.Partition}}
}

// Listing returns the conditions that a document of a source may list offsets from first to last. A comparison matches only
// numbers. But a document whose smallest or largest offset was removed, or replaced by a text or null, may list any offset. It
// must not be missed (E2). The conditions therefore exclude the other documents. The index serves these conditions as well.
func Listing(source Source, first, last int64) bson.D {
	not := func(comparison string, with int64) bson.D {
		return bson.D{{Key: "$not", Value: bson.D{{Key: comparison, Value: with}}}}
	}
	return append(OfSource(source), bson.E{Key: PathLast, Value: not("$lt", first)}, bson.E{Key: PathFirst, Value: not("$gt", last)})
}

// FullKey returns the conditions that find one document: its _id and its shard key. A router of a sharded cluster sends an update
// or a delete without the shard key to all shards, and without a version. During the move of a chunk such a command may change
// only a copy that is no longer the document, and report success.
func FullKey(id any, meta bson.RawValue, timeField string, least bson.RawValue) bson.D {
	return bson.D{{Key: FieldID, Value: id}, HasMeta(meta), IsAsRead(MinPath(timeField), least)}
}

// HasMeta returns the condition that a document has this meta, or a meta that compares equal. Type 0 means no meta.
func HasMeta(meta bson.RawValue) bson.E { return IsAsRead(FieldMeta, meta) }

// IsAsRead returns the condition that a field still has the value that was read of it, or a value that compares equal. Type 0
// means that the field was absent. A value that users wrote may look like a condition, and is then compared by $eq.
func IsAsRead(path string, value bson.RawValue) bson.E {
	switch {
	case value.Type == 0:
		return IsAbsent(path)
	case isCondition(value):
		return bson.E{Key: path, Value: bson.D{{Key: "$eq", Value: value}}}
	}
	return bson.E{Key: path, Value: value} // every server finds this form quickly together with an _id
}

// isCondition reports whether a query takes a value as a condition.
func isCondition(v bson.RawValue) bool {
	if v.Type != bson.TypeEmbeddedDocument {
		return v.Type == bson.TypeRegex
	}
	first, err := v.Document().IndexErr(0)
	return err == nil && strings.HasPrefix(first.Key(), "$")
}

// IsAbsent returns the condition that a field is absent.
func IsAbsent(path string) bson.E {
	return bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: false}}}
}

// IsPresent returns the condition that a field is present.
func IsPresent(path string) bson.E {
	return bson.E{Key: path, Value: bson.D{{Key: "$exists", Value: true}}}
}

// Never is later than any query. A bucket that is visible from then on is hidden for good.
var Never = bson.NewDateTimeFromTime(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))

// Key returns the binary key of a meta or an _id, which is its type and its bytes. Equal keys mean identical values, while a
// query also finds values that only compare equal. Empty means no value.
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

// UUID returns an id in the form that documents have.
func UUID(id [16]byte) bson.Binary { return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]} }

// UUIDIn returns the id in a field of a document. A field of another type reads as zero.
func UUIDIn(d bson.Raw, field string) (id [16]byte) {
	if _, data, ok := d.Lookup(field).BinaryOK(); ok && len(data) == len(id) {
		copy(id[:], data)
	}
	return id
}
