package bucketer

import "math"

// unseen bounds the minimum times of the stored buckets of the source that the catalog holds neither in memory nor in its
// archive: none is larger. A query can find no others. They were there when the catalog began, or it has forgotten them:
// nobody else opens buckets of the source.
type unseen struct{ newest int64 }

// Begin tells an empty catalog that none of the buckets of its source that are stored has a control.min.<time> larger than
// newest (milliseconds; math.MinInt64: there are none). Without it there may be any. If it is wrong, a bucket is opened
// where another might have been reopened, and nothing else.
func (c *Catalog) Begin(newest int64) { c.unseen.newest = newest }

// mayFind reports whether a query for a measurement that the archive has no bucket for may find one. A bucket that is out of
// bounds may hide an older one in the archive.
func (c *Catalog) mayFind(s *series, time int64) bool {
	newest := c.unseen.newest
	return newest > time || newest != math.MinInt64 && !spanExceeded(time, newest, c.span) ||
		s.more != nil && len(s.more.excluded) > 0
}

// add counts a bucket of this minimum time among them.
func (u *unseen) add(minTime int64) { u.newest = max(u.newest, minTime) }
