package timeseries

import "cmp"

// MaxParts is the largest number of measurements one record may hold: the parts of an array record are 0 to MaxParts-1.
const MaxParts = 1 << 20

// Position is the place of one measurement in its source partition.
type Position struct {
	// Offset is the Kafka offset of the record.
	Offset int64 `json:"offset"`
	// Part is the index of the measurement in an array record, 0 for a record that holds a single one.
	Part int32 `json:"part"`
}

// Compare orders positions by offset, then by part.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Offset, q.Offset), cmp.Compare(p.Part, q.Part))
}

// Source is the partition a bucket's measurements come from. A bucket has exactly one.
type Source struct {
	Topic     string
	TopicID   [16]byte // a topic deleted and created again has another
	Partition int32
}
