package timeseries

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Version is the control.version of every bucket that this program writes. Columns are plain objects, and nothing is compressed.
const Version int32 = 1

// Names of the fields of a bucket. The fields of min, max and data have the measurements' names.
const (
	FieldID           = "_id"
	FieldControl      = "control"
	FieldVersion      = "version"      // in control
	FieldMin          = "min"          // in control
	FieldMax          = "max"          // in control
	FieldCount        = "count"        // in control
	FieldSize         = "size"         // in control
	FieldClosed       = "closed"       // in control
	FieldSource       = "source"       // in control
	FieldTopic        = "topic"        // in control.source
	FieldTopicID      = "topicId"      // in control.source
	FieldPartition    = "partition"    // in control.source
	FieldFirst        = "first"        // in control.source
	FieldLast         = "last"         // in control.source
	FieldOffsets      = "offsets"      // in control.source
	FieldSegment      = "segment"      // in control, only in segments
	FieldOwner        = "owner"        // in control.segment
	FieldLow          = "low"          // in control.segment, the place of its first series in the order of series
	FieldHigh         = "high"         // in control.segment, the place of its last series in this order
	FieldBloom        = "bloom"        // in control.segment, with the number of bits behind it
	FieldVisibleUntil = "visibleUntil" // in control.segment, after the segment has ended
	FieldCompaction   = "compaction"   // in control.segment, the id of the compaction that froze it. In control, the compaction that made the bucket.
	FieldVisibleFrom  = "visibleFrom"  // in control.compaction
	FieldCompactionID = "id"           // in control.compaction
	FieldMeta         = "meta"
	FieldData         = "data"
)

// Dotted paths of the fields that queries, indexes and updates name.
const (
	PathVersion   = FieldControl + "." + FieldVersion
	PathCount     = FieldControl + "." + FieldCount
	PathSize      = FieldControl + "." + FieldSize
	PathClosed    = FieldControl + "." + FieldClosed
	PathSource    = FieldControl + "." + FieldSource
	PathTopicID   = PathSource + "." + FieldTopicID
	PathPartition = PathSource + "." + FieldPartition
	PathFirst     = PathSource + "." + FieldFirst
	PathLast      = PathSource + "." + FieldLast
	PathOffsets   = PathSource + "." + FieldOffsets

	PathSegment           = FieldControl + "." + FieldSegment
	PathOwner             = PathSegment + "." + FieldOwner
	PathVisibleUntil      = PathSegment + "." + FieldVisibleUntil
	PathSegmentCompaction = PathSegment + "." + FieldCompaction
	PathCompaction        = FieldControl + "." + FieldCompaction
	PathVisibleFrom       = PathCompaction + "." + FieldVisibleFrom
	PathCompactionID      = PathCompaction + "." + FieldCompactionID
)

// MinPath is the dotted path of a measurement field's minimum, "control.min.<field>".
func MinPath(field string) string { return Path(FieldControl, FieldMin, field) }

// MaxPath is the dotted path of a measurement field's maximum, "control.max.<field>".
func MaxPath(field string) string { return Path(FieldControl, FieldMax, field) }

// DataPath is the dotted path of a measurement field's column, "data.<field>".
func DataPath(field string) string { return Path(FieldData, field) }

// Path joins field names to a dotted path.
func Path(names ...string) string { return strings.Join(names, ".") }

// first splits a dotted path behind its first name. The rest keeps its leading dot. It is empty for a plain name.
func first(path string) (name, rest string) {
	if i := strings.IndexByte(path, '.'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// Suffixes that make the names of a time series' collections from its own name, which is the name of a view.
const (
	BucketsSuffix    = ".buckets"
	PartitionsSuffix = ".partitions"
	OptionsSuffix    = ".options"
)

// Lengths of names that MongoDB allows, in bytes.
const (
	maxDatabaseName = 63
	// MaxNamespace is the length of a database's name, a dot and a collection's name.
	MaxNamespace = 255
	// MaxShardedNamespace is MaxNamespace on a sharded cluster.
	MaxShardedNamespace = 235
)

// Collections returns the names that belong to a time series, that is, its own name and the names of its collections. The names
// of two time series in one database must not overlap.
func Collections(series string) []string {
	return []string{series, series + BucketsSuffix, series + PartitionsSuffix, series + OptionsSuffix}
}

// CheckDatabaseName returns why MongoDB refuses a database of this name on one of its operating systems. Nil means that MongoDB
// accepts the name. The error's text continues a sentence that begins with the name.
func CheckDatabaseName(name string) error {
	i := strings.IndexAny(name, "/\\. \"$*<>:|?\x00")
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case i >= 0:
		return fmt.Errorf("contains %q: MongoDB does not allow / \\ . \" $ * < > : | ? or a space", name[i:i+1])
	case len(name) > maxDatabaseName:
		return fmt.Errorf("has %d bytes: MongoDB allows at most %d", len(name), maxDatabaseName)
	case slices.Contains([]string{"admin", "config", "local"}, name):
		return fmt.Errorf("is reserved by MongoDB (admin, config, local): choose another name")
	}
	return nil
}

// CheckSeriesName returns why MongoDB refuses a time series of this name in a database. limit is the largest length of a
// namespace in bytes. Nil means that MongoDB accepts the name. The error's text continues a sentence that begins with the name.
func CheckSeriesName(database, name string, limit int) error {
	longest := len(database) + len(".") + len(name) + len(PartitionsSuffix)
	switch {
	case name == "":
		return fmt.Errorf("is empty")
	case strings.HasPrefix(name, "system."):
		return fmt.Errorf(`begins with "system.", which MongoDB reserves`)
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, "."):
		return fmt.Errorf("begins or ends with a dot")
	case strings.ContainsAny(name, "$\x00"):
		return fmt.Errorf("contains a $ or a NUL")
	case longest > limit:
		return fmt.Errorf("is too long: with the database and %s the name has %d bytes, but MongoDB allows at most %d", PartitionsSuffix, longest, limit)
	}
	return nil
}

// extendedRange is a flag in the timestamp of a bucket's _id. It means that the bucket's seconds do not fit 31 bits, as in
// MongoDB since 8.1. Such an _id does not sort by time.
const extendedRange uint32 = 1 << 31

// BucketID derives the _id of a bucket. The first 4 bytes are the seconds of minTime, big-endian. minTime is control.min.<time>
// in milliseconds. The other bytes are the first 8 bytes of a SHA-256 over the position of the measurement that opened the
// bucket. Two writers that open a bucket for the same measurement therefore collide. attempt starts at 0, and grows by one each
// time a conflict makes the same position open a bucket again.
func BucketID(src Source, opened Position, attempt int32, minTime int64) bson.ObjectID {
	var key [36]byte
	copy(key[:16], src.TopicID[:])
	binary.BigEndian.PutUint32(key[16:], uint32(src.Partition))
	binary.BigEndian.PutUint64(key[20:], uint64(opened.Offset))
	binary.BigEndian.PutUint32(key[28:], uint32(opened.Part))
	binary.BigEndian.PutUint32(key[32:], uint32(attempt))
	sum := sha256.Sum256(key[:])
	return BucketIDOf(minTime, sum[:8])
}

// BucketIDOf makes the _id of a bucket from its minimum time (control.min.<time>, milliseconds) and eight more bytes.
func BucketIDOf(minTime int64, rest []byte) (id bson.ObjectID) {
	binary.BigEndian.PutUint32(id[:4], idSeconds(minTime))
	copy(id[4:], rest)
	return id
}

// IDFits reports whether the _id of a bucket has the seconds of its minimum time (milliseconds). Readers of a range of times rely
// on either.
func IDFits(id bson.ObjectID, minTime int64) bool {
	return binary.BigEndian.Uint32(id[:4]) == idSeconds(minTime)
}

// IDsByTime returns the condition on the _id of buckets that have minimum times from a moment on (milliseconds), and _ids that
// sort by time. False means that no _id can.
func IDsByTime(from int64) (condition bson.D, ok bool) {
	var least, end bson.ObjectID
	if from > 0 {
		seconds := idSeconds(from)
		if seconds&extendedRange != 0 {
			return nil, false
		}
		binary.BigEndian.PutUint32(least[:4], seconds)
	}
	binary.BigEndian.PutUint32(end[:4], extendedRange)
	return bson.D{{Key: FieldID, Value: bson.D{{Key: "$gte", Value: least}, {Key: "$lt", Value: end}}}}, true
}

// IDsOutOfTime returns the condition on the _id of buckets that do not sort by time: those before 1970 and those after January
// 2038.
func IDsOutOfTime() bson.D {
	var least bson.ObjectID
	binary.BigEndian.PutUint32(least[:4], extendedRange)
	return bson.D{{Key: FieldID, Value: bson.D{{Key: "$gte", Value: least}}}}
}

// idSeconds returns the timestamp of a bucket's _id for a minimum time in milliseconds.
func idSeconds(minTime int64) uint32 {
	seconds := floorTo(minTime, 1000) / 1000
	if seconds < 0 || seconds > 1<<31-1 {
		return uint32(seconds) | extendedRange
	}
	return uint32(seconds)
}

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
	case IsCondition(value):
		return bson.E{Key: path, Value: bson.D{{Key: "$eq", Value: value}}}
	}
	return bson.E{Key: path, Value: value} // every server finds this form quickly together with an _id
}

// IsCondition reports whether a query takes a value as a condition. Otherwise the query compares with the value.
func IsCondition(v bson.RawValue) bool { return v.Type == bson.TypeRegex || HasOperators(v) }

// HasOperators distinguishes {$gt: …} from an object to compare with.
func HasOperators(v bson.RawValue) bool {
	if v.Type != bson.TypeEmbeddedDocument {
		return false
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
