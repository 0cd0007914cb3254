package timeseries

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// SeriesHash is where a series lies among all: FNV-1a (32 bits) of the byte of its meta's BSON type and the bytes of its
// value, folded to 16 bits by XOR of its halves. A series without meta has that of no bytes.
func SeriesHash(meta bson.RawValue) int32 {
	hash := uint32(2166136261)
	if meta.Type != 0 {
		hash = (hash ^ uint32(meta.Type)) * 16777619
	}
	for _, b := range meta.Value {
		hash = (hash ^ uint32(b)) * 16777619
	}
	return int32(hash>>16 ^ hash&0xffff)
}

// SeriesKeyHash is the SeriesHash of a meta given as the byte of its type and its value; empty for none.
func SeriesKeyHash(key string) int32 {
	hash := uint32(2166136261)
	for i := range len(key) {
		hash = (hash ^ uint32(key[i])) * 16777619
	}
	return int32(hash>>16 ^ hash&0xffff)
}

// MaxHash is the largest SeriesHash.
const MaxHash = 1<<16 - 1

// IsSegment is the condition that a document is a segment, by the field with which the index of segments begins.
func IsSegment() bson.E { return bson.E{Key: PathOwner, Value: bson.D{{Key: "$gte", Value: ""}}} }

// BucketsShown are the conditions on a document that is a bucket, of one series, and is shown at a moment: one that was made of
// segments is not shown before they end.
func BucketsShown(now time.Time) bson.D {
	return bson.D{
		{Key: PathOwner, Value: bson.D{{Key: "$exists", Value: false}}},
		{Key: PathVisibleFrom, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}

// SegmentsShown are the conditions on a document that is a segment and is shown at a moment, with some of the series from low to
// high by their hashes.
func SegmentsShown(now time.Time, low, high int32) bson.D {
	return bson.D{
		IsSegment(),
		{Key: PathLow, Value: bson.D{{Key: "$lte", Value: high}}},
		{Key: PathHigh, Value: bson.D{{Key: "$gte", Value: low}}},
		{Key: PathVisibleUntil, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$lte", Value: bson.NewDateTimeFromTime(now)}}}}},
	}
}
