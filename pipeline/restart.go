package pipeline

import "waterwheel/internal/claim"

// A restart begins the term anew from another offset or under another topic id. It waits until no answer is due that belongs to
// the present state. Whenever the position moves to a smaller offset, everything in memory is about other records. Until the
// restart nothing more is read or cut (mayRead, cut), and only sent writes are resolved. The commits renew the lease that this
// takes (Want).

// restart asks for the term to begin anew with the assignment a.
func (w *Worker) restart(a Assigned) {
	a.Consecutive = true // no other owner is known
	w.term.restart = &a
}

// from returns an assignment of this partition that assumes that we have committed offset.
func (w *Worker) from(offset int64) Assigned {
	return Assigned{TopicID: w.source.TopicID, From: &claim.Committed{Offset: offset, Metadata: w.provenance().String()}}
}

// again returns the present assignment, which starts from what the group has committed.
func (w *Worker) again() Assigned {
	return Assigned{TopicID: w.source.TopicID, Beside: w.assigned.Beside}
}

// createdAgain returns an assignment of the topic that replaced ours. Any committed offset belongs to the former topic, whoever
// committed it. Without that offset the topic would look like one that nobody has read, and KAFKA_START would decide.
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

// claimAgain gives the flush up, because another owner was found. Only a new claim tells who owns the partition (E7).
func (w *Worker) claimAgain() {
	w.log.Warn("another consumer has claimed the partition: this consumer claims it again")
	w.metrics.claim("lost")
	w.flush = nil
	w.restart(w.again())
}

// advanceRestart begins the term anew, if a restart was asked for and nothing is under way.
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
