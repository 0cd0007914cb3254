package sink

import (
	"waterwheel/internal/mongodb"
)

// What tests outside of the package look at.
var (
	PortablePipeline    = portablePipeline
	InternalPipeline    = internalPipeline
	UnionPipeline       = unionPipeline
	Measurements        = unpacked
	CompareMeasurements = compareMeasurements
)

// HoldingPartition is a partition under a claim of ours.
func HoldingPartition(s *Store) *Partition { return &Partition{store: s, standing: holding} }

// NotesIn are the notes in an options collection.
func NotesIn(options mongodb.Collection) Notes { return Notes{options} }
