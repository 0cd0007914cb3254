package pipeline

import "waterwheel/internal/claim"

// A restart begins the term anew from another offset or under another topic id, as soon as no answer is awaited that
// belongs to the present state: whenever the position moves to a smaller offset, everything in memory is about other
// records. Until then nothing more is read or cut (mayRead, cut), only what was sent is resolved, and the commits renew the
// lease that this takes (Want).

// restart asks for the term to begin anew as a says.
func (w *Worker) restart(a Assigned) {
	a.Consecutive = true // nothing is known of another owner
	w.term.restart = &a
}

// from is an assignment of this partition as if offset had been committed by us.
func (w *Worker) from(offset int64) Assigned {
	return Assigned{TopicID: w.source.TopicID, From: &claim.Committed{Offset: offset, Metadata: w.provenance().String()}}
}

// again is the present assignment, from what the group has committed.
func (w *Worker) again() Assigned {
	return Assigned{TopicID: w.source.TopicID, Beside: w.assigned.Beside}
}

// createdAgain is an assignment of the topic that took the place of ours. What was committed is of the former one, whoever
// committed it: without that it would look like a topic that nobody has read, and KAFKA_START would decide.
func (w *Worker) createdAgain(topicID [16]byte) Assigned {
	a := w.again()
	a.TopicID = topicID
	switch former := w.term.committed; {
	case w.committed >= 0:
		a.From = &claim.Committed{Offset: w.committed, Metadata: w.provenance().String()}
	case w.term.known && former.Offset >= 0 && !former.Consumed:
		a.From = &claim.Committed{Offset: former.Offset, Metadata: w.provenance().String()}
	case w.term.known:
		a.From = &claim.Committed{Offset: -1}
	}
	return a
}

// claimAgain gives the flush up, because another owner was found: only a new claim tells whose the partition is (E7).
func (w *Worker) claimAgain() {
	w.log.Warn("another consumer has claimed the partition: claiming it again")
	w.metrics.claim("lost")
	w.flush = nil
	w.restart(w.again())
}

// advanceRestart begins the term anew, if that was asked for and nothing is under way.
func (w *Worker) advanceRestart(m Moment, actions []Action) []Action {
	if w.term.restart == nil || !w.quiet() {
		return actions
	}
	w.drop()
	if w.term.revoked {
		return w.leave(actions)
	}
	return w.assign(m, *w.term.restart)
}
