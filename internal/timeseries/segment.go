package timeseries

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
