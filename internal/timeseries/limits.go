package timeseries

import "math"

// Bounds of a bucket's accounted bytes.
const (
	// LargeBytes is what a bucket of less than Limits.MinCount measurements may grow to: 16 MiB less 4 for the rest.
	LargeBytes = 12 << 20
	// cacheBytesFloor is what a cache-derived limit never falls below.
	cacheBytesFloor = 5120
)

// Limits bound one bucket.
type Limits struct {
	MaxCount   int32 // measurements in a bucket
	MaxBytes   int32 // accounted bytes of a bucket
	MinCount   int32 // below it an oversize bucket stays open; 1 switches that off
	CacheBytes int64 // of which the active buckets of one catalog share half. Zero means no limit from it.
}

// Sizes returns the bytes beyond which a bucket is closed when it has MinCount measurements (effective), and when it
// has fewer (absolute), for a number of active buckets: open and archived ones that share CacheBytes.
// Effective below MaxBytes, or absolute below LargeBytes, means that the cache is what limits.
func (l Limits) Sizes(active int64) (effective, absolute int32) {
	derived := derivedSize(l.CacheBytes, active, cacheBytesFloor)
	return min(l.MaxBytes, derived), min(LargeBytes, derived)
}

// derivedSize is a bucket's share of half the cache, no less than floor; without cache or buckets there is no limit.
func derivedSize(cacheBytes, active int64, floor int32) int32 {
	if cacheBytes <= 0 || active <= 0 {
		return math.MaxInt32
	}
	return max(floor, int32(min(cacheBytes/2/active, math.MaxInt32)))
}
