package timeseries

import (
	"encoding/binary"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// SegmentMetaOf returns the meta of a segment, which is BinData with a word and the last bits of the _id. No series has such a
// meta (measurement.BadMeta). A sharded cluster places a document by its meta. This meta spreads segments over the shards, and
// makes the shard key of a segment follow from its _id. The subtype is the generic one, because not all servers keep others.
func SegmentMetaOf(id bson.ObjectID) bson.RawValue {
	return SegmentMeta(int(binary.BigEndian.Uint16(id[len(id)-routeBytes:])) % SegmentRoutes)
}

const (
	segmentPrefix = "segment"
	routeBytes    = 2
	// SegmentRoutes is the number of different metas of segments.
	SegmentRoutes = 1 << 12
)

// SegmentMeta returns one of the metas of segments. route is 0 to SegmentRoutes - 1, in the order of the metas.
func SegmentMeta(route int) bson.RawValue {
	const size = len(segmentPrefix) + routeBytes
	value := append([]byte{byte(size), 0, 0, 0, bson.TypeBinaryGeneric}, segmentPrefix...)
	return bson.RawValue{Type: bson.TypeBinary, Value: binary.BigEndian.AppendUint16(value, uint16(route))}
}

// IsSegmentMeta reports whether a value is the meta of a segment.
func IsSegmentMeta(v bson.RawValue) bool {
	const size = len(segmentPrefix) + routeBytes
	if v.Type != bson.TypeBinary {
		return false
	}
	subtype, data, ok := v.BinaryOK()
	return ok && subtype == bson.TypeBinaryGeneric && len(data) == size && string(data[:len(segmentPrefix)]) == segmentPrefix
}

// IsSegment returns the condition that a document is a segment. It uses the first field of the index of segments.
func IsSegment() bson.E { return bson.E{Key: PathOwner, Value: bson.D{{Key: "$gte", Value: ""}}} }

// BucketsShown returns the conditions that a document is a bucket of one series and is shown at a moment. A bucket that was made
// of segments is not shown before these end.
func BucketsShown(now time.Time) bson.D {
	return bson.D{
		IsAbsent(PathOwner),
		{Key: PathVisibleFrom, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}

// SegmentsShown returns the conditions that a document is a segment and is shown at a moment.
func SegmentsShown(now time.Time) bson.D {
	return bson.D{
		IsSegment(),
		{Key: PathVisibleUntil, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lte", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}
