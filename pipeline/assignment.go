package pipeline

import "waterwheel/internal/record"

// assignment is which partitions the group has given to this process, and what a new generation changes about that. The
// simulation asks it, too.
type assignment struct {
	topics map[record.Partition][16]byte // of the last generation, with the ids of their topics
}

// follow takes the assignments of a generation, says of each whether it is consecutive, and returns for which of them the term
// of the last generation goes on: those that nobody else can have had in between. Consecutive: this process was in the
// generation just before, and knows what was assigned there.
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
