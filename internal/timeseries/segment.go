package timeseries

import (
	"bytes"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// SegmentMetaOf is the meta of a segment: BinData of a subtype for users, a prefix and two bytes of the _id. No series has such a meta. A
// sharded cluster places a document by its meta: so segments are spread over the shards, and the key of each follows from its _id.
func SegmentMetaOf(id bson.ObjectID) bson.RawValue {
	return segmentMeta(id[len(id)-segmentRoute:])
}

const (
	segmentPrefix = "segment"
	segmentRoute  = 2 // bytes of the _id
)

func segmentMeta(route []byte) bson.RawValue {
	const size = len(segmentPrefix) + segmentRoute
	value := append([]byte{byte(size), 0, 0, 0, bson.TypeBinaryUserDefined}, segmentPrefix...)
	return bson.RawValue{Type: bson.TypeBinary, Value: append(value, route...)}
}

// SegmentMetas are the smallest and the largest meta of a segment.
func SegmentMetas() (least, most bson.RawValue) {
	return segmentMeta([]byte{0, 0}), segmentMeta([]byte{0xff, 0xff})
}

// IsSegmentMeta reports whether a value is the meta of a segment.
func IsSegmentMeta(v bson.RawValue) bool {
	least, _ := SegmentMetas()
	return v.Type == least.Type && len(v.Value) == len(least.Value) && bytes.HasPrefix(v.Value, least.Value[:len(least.Value)-segmentRoute])
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
