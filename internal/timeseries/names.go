package timeseries

import (
	"fmt"
	"slices"
	"strings"
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
