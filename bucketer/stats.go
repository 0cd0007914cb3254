package bucketer

import "go.mongodb.org/mongo-driver/v2/bson"

// Stats counts what a catalog has done. The names are those of MongoDB's bucket catalog statistics (collStats, serverStatus),
// where these exist. All fields except the last group only grow.
type Stats struct {
	BucketInserts                         int64 // first writes of buckets
	BucketUpdates                         int64 // later writes with measurements
	BucketsOpenedDueToMetadata            int64 // the series had no open bucket
	BucketsClosedDueToCount               int64
	BucketsClosedDueToSize                int64
	BucketsClosedDueToCachePressure       int64
	BucketsClosedDueToSchemaChange        int64
	BucketsClosedDueToTimeForward         int64
	BucketsClosedDueToMemoryThreshold     int64 // idle buckets that are not archived, and archived buckets that are dropped
	BucketsClosedDueToReopening           int64
	BucketsArchivedDueToTimeBackward      int64
	BucketsArchivedDueToMemoryThreshold   int64
	BucketsReopened                       int64
	BucketsKeptOpenDueToLargeMeasurements int64
	Commits                               int64 // writes with measurements that were applied
	MeasurementsCommitted                 int64
	BucketsFetched                        int64 // archived buckets found by _id
	BucketFetchesFailed                   int64
	BucketsQueried                        int64 // found by series and time
	BucketQueriesFailed                   int64
	BucketReopeningsFailed                int64 // found, but not fit to be reopened
	DuplicateBucketsReopened              int64 // found, but in memory already
	BucketDocumentsTooLargeInsert         int64
	BucketDocumentsTooLargeUpdate         int64

	BucketsOpened              int64 // all new buckets
	SegmentInserts             int64 // of segments
	MeasurementsInSegments     int64 // in segments; part of MeasurementsCommitted
	BucketsLeftDueToDeltaCost  int64 // stored buckets whose update would have been too costly
	BucketsCleared             int64 // forgotten because something else writes to the collection
	BucketsReopenedFromArchive int64 // part of BucketsReopened
	Closes                     int64 // writes that did nothing but close
	Conflicts                  int64 // writes in conflict
	Refusals                   int64 // writes refused for their content

	Series          int64
	OpenBuckets     int64 // in memory: open, or rolled over and not yet written
	ArchivedBuckets int64
	AwaitingSeries  int64 // waiting for the answer to a look-up
	KeptBytes       int64 // Bytes
}

// Stats returns the present statistics.
func (c *Catalog) Stats() Stats {
	s := c.stats
	s.Series = int64(c.series.live)
	s.OpenBuckets = int64(len(c.buckets))
	s.ArchivedBuckets = int64(c.archive.live)
	s.AwaitingSeries = int64(c.lookups.series)
	s.KeptBytes = c.Bytes()
	return s
}

// rolledOver counts that a bucket has rolled over.
func (s *Stats) rolledOver(act action, why reason) {
	switch why {
	case byTimeForward:
		s.BucketsClosedDueToTimeForward++
	case byTimeBackward:
		s.BucketsArchivedDueToTimeBackward++
	case byCount:
		s.BucketsClosedDueToCount++
	case bySize:
		s.BucketsClosedDueToSize++
	case byCachePressure:
		s.BucketsClosedDueToCachePressure++
	case bySchemaChange:
		s.BucketsClosedDueToSchemaChange++
	case byReopening:
		s.BucketsClosedDueToReopening++
	case byMemory:
		if act == archive {
			s.BucketsArchivedDueToMemoryThreshold++
		} else {
			s.BucketsClosedDueToMemoryThreshold++
		}
	case byDeltaCost:
		s.BucketsLeftDueToDeltaCost++
	}
}

// committed counts a write that was applied.
func (s *Stats) committed(w *Write) {
	switch {
	case w.Added == 0:
		s.Closes++
		return
	case w.Segment:
		s.SegmentInserts++
		s.MeasurementsInSegments += int64(w.Added)
	case w.Kind == Insert:
		s.BucketInserts++
	default:
		s.BucketUpdates++
	}
	s.Commits++
	s.MeasurementsCommitted += int64(w.Added)
}

// Metas returns the metas of up to most series in memory, of any series and in any order. The bytes are copies. Type 0 means a
// series without meta.
func (c *Catalog) Metas(most int) []bson.RawValue {
	metas := make([]bson.RawValue, 0, min(most, c.series.live))
	for s := range c.series.all() {
		if len(metas) == cap(metas) {
			break
		}
		metas = append(metas, s.meta())
	}
	return metas
}
