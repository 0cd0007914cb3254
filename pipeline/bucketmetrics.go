package pipeline

import (
	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/bucketer"
)

// bucketCounter is one metric, summed over terms, and the catalog statistic that it follows.
type bucketCounter struct {
	vec    *prometheus.CounterVec
	values []string // of the labels other than topic and partition
	of     func(*bucketer.Stats) int64
}

func newBucketCounters(counter func(name, help string, labels ...string) *prometheus.CounterVec) []bucketCounter {
	opened := counter("buckets_opened_total", "New buckets.")
	closed := counter("buckets_closed_total", "Buckets that take no more measurements, by reason.", "reason")
	archived := counter("buckets_archived_total", "Buckets that were archived and can be reopened, by reason.", "reason")
	reopened := counter("buckets_reopened_total", "Stored buckets that were reopened, by how they were found.", "path")
	lookups := counter("bucket_lookups_total", "Look-ups of stored buckets, by path and whether a bucket was found.", "path", "found")
	writes := counter("bucket_writes_total", "Applied writes, by kind.", "kind")
	tooLarge := counter("bucket_documents_too_large_total", "Writes that would have made a document too large for MongoDB, by kind.", "kind")
	single := func(name, help string, of func(*bucketer.Stats) int64) bucketCounter {
		return bucketCounter{counter(name, help), nil, of}
	}
	return []bucketCounter{
		{writes, []string{"insert"}, func(s *bucketer.Stats) int64 { return s.BucketInserts }},
		{writes, []string{"update"}, func(s *bucketer.Stats) int64 { return s.BucketUpdates }},
		{writes, []string{"segment"}, func(s *bucketer.Stats) int64 { return s.SegmentInserts }},
		single("segment_measurements_total", "Measurements written into segments.",
			func(s *bucketer.Stats) int64 { return s.MeasurementsStaged }),
		{writes, []string{"close"}, func(s *bucketer.Stats) int64 { return s.Closes }},
		single("bucket_commits_total", "Applied writes that added measurements.",
			func(s *bucketer.Stats) int64 { return s.Commits }),
		single("bucket_measurements_committed_total", "Measurements added by applied writes.",
			func(s *bucketer.Stats) int64 { return s.MeasurementsCommitted }),
		single("buckets_opened_due_to_metadata_total", "New buckets of series that had no open bucket.",
			func(s *bucketer.Stats) int64 { return s.BucketsOpenedDueToMetadata }),
		single("buckets_kept_open_due_to_large_measurements_total", "Buckets above the size limit that stayed open because they have few, large measurements.",
			func(s *bucketer.Stats) int64 { return s.BucketsKeptOpenDueToLargeMeasurements }),
		single("bucket_reopenings_failed_total", "Stored buckets that were found but could not be reopened.",
			func(s *bucketer.Stats) int64 { return s.BucketReopeningsFailed }),
		single("duplicate_buckets_reopened_total", "Stored buckets that were found but were already in memory.",
			func(s *bucketer.Stats) int64 { return s.DuplicateBucketsReopened }),
		single("buckets_cleared_total", "Buckets removed from memory because another writer has written to their series.",
			func(s *bucketer.Stats) int64 { return s.BucketsCleared }),
		{tooLarge, []string{"insert"}, func(s *bucketer.Stats) int64 { return s.BucketDocumentsTooLargeInsert }},
		{tooLarge, []string{"update"}, func(s *bucketer.Stats) int64 { return s.BucketDocumentsTooLargeUpdate }},
		{opened, nil, func(s *bucketer.Stats) int64 { return s.BucketsOpened }},
		{closed, []string{"count"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToCount }},
		{closed, []string{"size"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToSize }},
		{closed, []string{"schema"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToSchemaChange }},
		{closed, []string{"cache"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToCachePressure }},
		{closed, []string{"time_forward"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToTimeForward }},
		{closed, []string{"memory"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToMemoryThreshold }},
		{closed, []string{"reopening"}, func(s *bucketer.Stats) int64 { return s.BucketsClosedDueToReopening }},
		{closed, []string{"delta_cost"}, func(s *bucketer.Stats) int64 { return s.BucketsLeftDueToDeltaCost }},
		{archived, []string{"time_backward"}, func(s *bucketer.Stats) int64 { return s.BucketsArchivedDueToTimeBackward }},
		{archived, []string{"memory"}, func(s *bucketer.Stats) int64 { return s.BucketsArchivedDueToMemoryThreshold }},
		{reopened, []string{"archived"}, func(s *bucketer.Stats) int64 { return s.BucketsReopenedFromArchive }},
		{reopened, []string{"query"}, func(s *bucketer.Stats) int64 { return s.BucketsReopened - s.BucketsReopenedFromArchive }},
		{lookups, []string{"archived", "true"}, func(s *bucketer.Stats) int64 { return s.BucketsFetched }},
		{lookups, []string{"archived", "false"}, func(s *bucketer.Stats) int64 { return s.BucketFetchesFailed }},
		{lookups, []string{"query", "true"}, func(s *bucketer.Stats) int64 { return s.BucketsQueried }},
		{lookups, []string{"query", "false"}, func(s *bucketer.Stats) int64 { return s.BucketQueriesFailed }},
	}
}

// countBuckets adds what the partition's catalog has counted since the statistics before.
func (m *partitionMetrics) countBuckets(before, now *bucketer.Stats) {
	for _, c := range m.buckets {
		if grown := c.of(now) - c.of(before); grown > 0 {
			c.vec.WithLabelValues(c.values...).Add(float64(grown))
		}
	}
}
