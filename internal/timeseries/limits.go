package timeseries

import "math"

// Bounds of a bucket's accounted bytes.
const (
	// LargeBytes bounds a bucket of fewer than Limits.MinCount measurements. It is 16 MiB minus 4 MiB for the rest.
	LargeBytes = 12 << 20
	// cacheBytesFloor is the smallest limit that can be derived from the cache.
	cacheBytesFloor = 5120
)

// Limits bound one bucket.
type Limits struct {
	MaxCount   int32 // measurements in a bucket
	MaxBytes   int32 // accounted bytes of a bucket
	MinCount   int32 // a bucket with fewer measurements stays open beyond MaxBytes. 1 turns this off.
	CacheBytes int64 // size of the cache, of which the active buckets of one catalog share half. Zero means that the cache sets no limit.
}

// Sizes returns the bytes beyond which a bucket is closed. effective applies to a bucket with at least MinCount measurements, and
// absolute to a bucket with fewer. active is the number of open and archived buckets, which share CacheBytes. If effective is
// below MaxBytes, or absolute below LargeBytes, the cache sets the limit.
func (l Limits) Sizes(active int64) (effective, absolute int32) {
	derived := derivedSize(l.CacheBytes, active, cacheBytesFloor)
	return min(l.MaxBytes, derived), min(LargeBytes, derived)
}

// derivedSize returns a bucket's share of half the cache, and at least floor. Without a cache or active buckets there is no
// limit.
func derivedSize(cacheBytes, active int64, floor int32) int32 {
	if cacheBytes <= 0 || active <= 0 {
		return math.MaxInt32
	}
	return max(floor, int32(min(cacheBytes/2/active, math.MaxInt32)))
}
