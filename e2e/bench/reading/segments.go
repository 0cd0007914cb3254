package reading

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/collection"
	"waterwheel/internal/measurement"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// livePartitions is the number of partitions of the segments. Neighbouring series are in different partitions.
const livePartitions = 4

// live stores the first Flushes measurements of the hour after the buckets. It stores them in segments, as the consumer makes
// them, and in buckets of the native time series.
func (s *stored) live(ctx context.Context, d *mongodb.Database) error {
	if s.load.Flushes == 0 {
		return nil
	}
	if _, _, err := collection.Of(d, oursName).CreateMetaIndex(ctx, sensorPath); err != nil {
		return fmt.Errorf("making the index on %s: %w", sensorPath, err)
	}
	catalogs := make([]*bucketer.Catalog, livePartitions)
	for p := range catalogs {
		source := timeseries.Source{Topic: "readings", TopicID: [16]byte{1}, Partition: int32(p)}
		catalogs[p] = bucketer.New(bucketer.Options{
			Collection: bucketOptions, Limits: timeseries.Limits{MaxCount: 1000, MaxBytes: 125 << 10, MinCount: 10}, Source: source,
			DenseFrom: 1 << 30, SegmentRows: int32(s.load.Rows), SegmentOrder: []string{sensorField}, Owner: fmt.Sprint("bench/readings/", p),
		})
	}
	metas := make([]bson.RawValue, s.load.Series)
	for i := range metas {
		raw, err := bson.Marshal(meta(i))
		if err != nil {
			return fmt.Errorf("encoding a meta: %w", err)
		}
		metas[i] = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}
	}
	for flush := range s.load.Flushes {
		elements := elementsOf(flush)
		for i, meta := range metas {
			m := measurement.Measurement{
				Position: timeseries.Position{Offset: int64(flush*s.load.Series + i)}, Meta: meta, Elements: elements,
				Time: s.first(i, s.load.Hours).Add(time.Duration(flush) * s.load.Step).UnixMilli(),
			}
			if err := catalogs[i%livePartitions].Insert(&m); err != nil {
				return fmt.Errorf("putting a measurement into a segment: %w", err)
			}
		}
		for _, c := range catalogs {
			if err := s.flush(ctx, c); err != nil {
				return err
			}
		}
	}
	if !s.native {
		return nil
	}
	return s.insertBuckets(ctx, s.load.Hours, s.load.Flushes, nativeBuckets)
}

// flush inserts the segments that wait in a catalog.
func (s *stored) flush(ctx context.Context, c *bucketer.Catalog) error {
	f := c.Prepare(0)
	if f == nil {
		return nil
	}
	for rest := f.Writes; len(rest) > 0; {
		n := min(insertedAt, len(rest))
		documents := make([]bson.Raw, n)
		for i, w := range rest[:n] {
			documents[i] = w.Document
		}
		if _, err := s.database.Collection(oursBuckets).InsertMany(ctx, documents); err != nil {
			return fmt.Errorf("inserting segments: %w", err)
		}
		rest = rest[n:]
	}
	c.Finish(f, make([]bucketer.Outcome, len(f.Writes)), 0)
	c.Release(f)
	return nil
}
