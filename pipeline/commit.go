package pipeline

import (
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// Want is the offset that should be committed now, with its metadata. False means that none may be.
func (w *Worker) Want() (record.Commit, bool) {
	offset, metadata := int64(-1), w.provenance().String()
	switch {
	case w.phase == idle:
	case w.term.restart != nil: // nothing new; but only an answered commit renews the lease, which the flush needs
		offset = w.committed
	case w.catalog != nil && w.term.claimed:
		offset = w.committable()
	case w.term.resolved && w.term.quiesced && w.halt == nil: // before D only the start itself (E6)
		offset = w.term.start.Committed()
		if w.term.committed.Consumed && !w.term.claimed { // the document it was decided by may be an old one
			metadata = claim.ConsumedMetadata
		}
	}
	if offset < 0 {
		return record.Commit{}, false
	}
	return record.Commit{Place: w.place(offset), Metadata: metadata}, true
}

// provenance is the metadata of our commits.
func (w *Worker) provenance() claim.Provenance {
	return claim.Provenance{ClusterID: w.o.ClusterID, TopicID: w.source.TopicID, Namespace: w.o.Namespace}
}

// commitAnswered takes the answer to a commit, which means something else in each phase: before the claim that the membership
// holds, in the stream how far a term that follows may go on warm, and at the end that the claim may be released.
func (w *Worker) commitAnswered(m Moment, e Committed) {
	if e.Err != nil {
		if w.phase == proving || w.term.handing == committing {
			w.retry.claim.fail(m.Now, w.o.Random)
		}
		return
	}
	w.signs.committed = e.Offset
	w.past.observedClaim.prove(m.Renewed)
	switch w.phase {
	case proving:
		w.proved(e)
	case running:
		w.committed = e.Offset
		w.handOverCommitted(e)
	}
}

// committable is the offset up to which everything is durable or need not be (E6).
func (w *Worker) committable() int64 {
	oldest, pending := w.catalog.Oldest()
	offset := w.ledger.committable(oldest, pending)
	for _, r := range w.rejected {
		offset = min(offset, r.Position.Offset)
	}
	if w.losing != nil {
		offset = min(offset, w.losing.From)
	}
	return offset
}

// ledger knows which offset may be committed (E6): the smallest offset of which some part is not yet stored, skipped as
// stored, or acknowledged by the dead-letter topic; with nothing open, the fetch position. Measurements are the
// catalog's to count (Catalog.Oldest), letters are counted here.
type ledger struct {
	// next is the fetch position.
	next int64
	// letters are the offsets of letters not yet acknowledged, in the order they came up. Letters of records read again for
	// a refused write are out of order, so the smallest is searched; there are few.
	letters []int64
}

// open notes a letter that must be acknowledged.
func (l *ledger) open(offset int64) { l.letters = append(l.letters, offset) }

// acknowledge closes the n oldest letters.
func (l *ledger) acknowledge(n int) {
	l.letters = append(l.letters[:0], l.letters[n:]...)
}

// committable is the offset that may be committed, given the smallest offset that is pending elsewhere.
func (l *ledger) committable(oldest int64, pending bool) int64 {
	offset := l.next
	if pending {
		offset = min(offset, oldest)
	}
	for _, letter := range l.letters {
		offset = min(offset, letter)
	}
	return offset
}
