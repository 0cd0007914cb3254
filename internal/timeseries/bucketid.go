package timeseries

import (
	"crypto/sha256"
	"encoding/binary"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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

// idSeconds returns the timestamp of a bucket's _id for a minimum time in milliseconds.
func idSeconds(minTime int64) uint32 {
	seconds := floorTo(minTime, 1000) / 1000
	if seconds < 0 || seconds > 1<<31-1 {
		return uint32(seconds) | extendedRange
	}
	return uint32(seconds)
}
