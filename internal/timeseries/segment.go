package timeseries

import (
	"bytes"
	"encoding/binary"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// SegmentMetaOf is the meta of a segment: BinData with a word and the last bits of the _id. No series has such a meta
// (measurement.BadMeta). A sharded cluster places a document by its meta: so segments are spread over the shards, and the key of each
// follows from its _id. The subtype is the common one, since not all servers keep others.
func SegmentMetaOf(id bson.ObjectID) bson.RawValue {
	return SegmentMeta(int(binary.BigEndian.Uint16(id[len(id)-routeBytes:])) % SegmentRoutes)
}

const (
	segmentPrefix = "segment"
	routeBytes    = 2
	// SegmentRoutes is how many metas segments have.
	SegmentRoutes = 1 << 12
)

// SegmentMeta is one of the metas of segments, from 0 to SegmentRoutes - 1 in their order.
func SegmentMeta(route int) bson.RawValue {
	const size = len(segmentPrefix) + routeBytes
	value := append([]byte{byte(size), 0, 0, 0, bson.TypeBinaryGeneric}, segmentPrefix...)
	return bson.RawValue{Type: bson.TypeBinary, Value: binary.BigEndian.AppendUint16(value, uint16(route))}
}

// IsSegmentMeta reports whether a value is the meta of a segment.
func IsSegmentMeta(v bson.RawValue) bool {
	prefix := SegmentMeta(0).Value
	prefix = prefix[:len(prefix)-routeBytes]
	return v.Type == bson.TypeBinary && len(v.Value) == len(prefix)+routeBytes && bytes.HasPrefix(v.Value, prefix)
}

// IsSegment is the condition that a document is a segment, by the field with which the index of segments begins.
func IsSegment() bson.E { return bson.E{Key: PathOwner, Value: bson.D{{Key: "$gte", Value: ""}}} }

// BucketsShown are the conditions on a document that is a bucket, of one series, and is shown at a moment: one that was made of
// segments is not shown before they end.
func BucketsShown(now time.Time) bson.D {
	return bson.D{
		IsAbsent(PathOwner),
		{Key: PathVisibleFrom, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}

// SegmentsShown are the conditions on a document that is a segment and is shown at a moment.
func SegmentsShown(now time.Time) bson.D {
	return bson.D{
		IsSegment(),
		{Key: PathVisibleUntil, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lte", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}
