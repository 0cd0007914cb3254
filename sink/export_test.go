package sink

import "waterwheel/internal/timeseries"

// What tests outside of the package look at.
var (
	PortablePipeline    = portablePipeline
	InternalPipeline    = internalPipeline
	UnionPipeline       = unionPipeline
	Measurements        = unpacked
	CompareMeasurements = compareMeasurements
)

// BucketsOf is the collection of a time series' buckets, as a Store has it.
func BucketsOf(d *Database, series string) Collection {
	return driverCollection{d.db.Collection(series + timeseries.BucketsSuffix), d}
}

// HoldingPartition is a partition under a claim of ours.
func HoldingPartition(s *Store) *Partition { return &Partition{store: s, standing: holding} }

// NotesIn are the notes in an options collection.
func NotesIn(options Collection) Notes { return Notes{options} }
