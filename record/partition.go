package record

import (
	"cmp"
	"fmt"
)

// Partition is a partition of a topic, by name.
type Partition struct {
	Topic  string
	Number int32
}

// String is topic/partition.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Number) }

// Compare orders partitions by topic, then by number.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Number, q.Number))
}

// Place is where a record stands.
type Place struct {
	Partition
	Offset int64
}

// String is topic/partition/offset.
func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Partition, p.Offset) }
