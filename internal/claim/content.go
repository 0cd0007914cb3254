package claim

import (
	"fmt"

	"waterwheel/internal/record"
)

// LostContentError means that a collection is not set up, although measurements were stored there.
type LostContentError struct {
	Namespace, Group string
	// Committed is a partition with the offset that the group has committed after it had stored the records before it. An offset of 0
	// means that this process has stored measurements.
	Committed record.Place
}

// Error names the ways out.
func (e *LostContentError) Error() string {
	stored := "this consumer has stored measurements in it"
	if e.Committed.Offset > 0 {
		stored = fmt.Sprintf("the group %q has stored the records of %s before offset %d in it", e.Group, e.Committed.Partition, e.Committed.Offset)
	}
	return fmt.Sprintf("the collection %s has lost its content: it is not set up, but %s. The collection was dropped, or MONGODB_URI leads to another MongoDB. "+
		"Restore the collection, or correct MONGODB_URI. To read the records again, stop all consumers and run kafka-consumer-groups.sh --reset-offsets --to-earliest. "+
		"To go on without the lost measurements, use --to-current instead", e.Namespace, stored)
}

// RefuseEmpty returns a *LostContentError if the group has committed offsets of this pipeline, whose collection is not set up. Then
// the collection must not be set up again, because nobody would notice the loss. committed has the commits of partitions.
func (p Provenance) RefuseEmpty(group string, partitions []record.Partition, committed []Committed) error {
	for i, c := range committed {
		if meaning, _ := p.Meaning(c); meaning == Ours && c.Offset > 0 {
			return &LostContentError{p.Namespace, group, record.Place{Partition: partitions[i], Offset: c.Offset}}
		}
	}
	return nil
}
