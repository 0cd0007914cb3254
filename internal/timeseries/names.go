package timeseries

import "strings"

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
