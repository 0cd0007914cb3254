package pipeline

import "waterwheel/internal/record"

// assignment is the set of partitions that the group has given to this process. It decides what a new generation changes about
// them. The simulation uses it, too.
type assignment struct {
	topics map[record.Partition][16]byte // of the last generation, with their topic ids
}

// follow takes the assignments of a new generation and marks each that is consecutive. It returns the partitions whose term
// goes on, because no other process can have owned them in between. The argument consecutive means that this process was in the
// generation just before, and knows what that generation assigned.
func (r *assignment) follow(assignments []Assignment, consecutive bool) (stay map[record.Partition]bool) {
	stay = map[record.Partition]bool{}
	topics := make(map[record.Partition][16]byte, len(assignments))
	for i := range assignments {
		a := &assignments[i]
		former, again := r.topics[a.Partition]
		a.Consecutive = consecutive && again
		topics[a.Partition], stay[a.Partition] = a.TopicID, a.Consecutive && former == a.TopicID
	}
	r.topics = topics
	return stay
}
