package bucketer

import "math"

// unseen is an upper bound of the minimum times of stored buckets of the source that are neither in memory nor in the archive.
// A query can find no other buckets. They were there when the catalog began, or the catalog has forgotten them, because only it
// opens buckets of the source.
type unseen struct{ newest int64 }

// Begin tells an empty catalog that no stored bucket of its source has a control.min.<time> larger than newest, in
// milliseconds. math.MinInt64 means that there is no bucket. Without Begin there may be any buckets. If newest is wrong, the
// only consequence is that a bucket is opened where another one might have been reopened.
func (c *Catalog) Begin(newest int64) { c.unseen.newest = newest }

// mayFind reports whether a query may find a bucket for a measurement when the archive has none. An excluded bucket may hide an
// older one in the archive.
func (c *Catalog) mayFind(s *series, time int64) bool {
	newest := c.unseen.newest
	return newest > time || newest != math.MinInt64 && !spanExceeded(time, newest, c.span) ||
		s.more != nil && len(s.more.excluded) > 0
}

// add counts a bucket with this minimum time among the unseen.
func (u *unseen) add(minTime int64) { u.newest = max(u.newest, minTime) }
