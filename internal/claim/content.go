package claim

import (
	"fmt"

	"waterwheel/internal/record"
)

// LostContentError means that a collection is not set up, although the group has committed offsets of it.
type LostContentError struct {
	Namespace, Group string
	// Committed is a partition with the offset that the group has committed.
	Committed record.Place
}

// Error names the ways out.
func (e *LostContentError) Error() string {
	return fmt.Sprintf("the collection %s has lost its content: it is not set up, but the group %q has committed offset %d of %s for it. "+
		"The collection was dropped, or MONGODB_URI leads to another MongoDB. Restore the collection, or correct MONGODB_URI. "+
		"To read the records again, stop all consumers and run kafka-consumer-groups.sh --reset-offsets --to-earliest --execute. "+
		"To go on without the lost measurements, use --to-current instead of --to-earliest",
		e.Namespace, e.Group, e.Committed.Offset, e.Committed.Partition)
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
