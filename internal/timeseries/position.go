package timeseries

import "cmp"

// MaxParts is the largest number of measurements in one record. The parts of an array record are 0 to MaxParts-1.
const MaxParts = 1 << 20

// Position is the place of one measurement in its source partition.
type Position struct {
	// Offset is the Kafka offset of the record.
	Offset int64 `json:"offset"`
	// Part is the index of the measurement in an array record. It is 0 for a record with a single measurement.
	Part int32 `json:"part"`
}

// Compare orders positions by offset, then by part.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Part, q.Part))
}

// Source is the partition from which a bucket's measurements come. A bucket has exactly one.
type Source struct {
	Topic     string
	TopicID   [16]byte // a topic that is deleted and created again gets another id
	Partition int32
}
