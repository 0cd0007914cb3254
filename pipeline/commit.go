package pipeline

import (
	"waterwheel/internal/claim"
	"waterwheel/internal/record"
)

// Want returns the offset that should be committed now, with its metadata. False means that nothing may be committed.
func (w *Worker) Want() (record.Commit, bool) {
	offset, metadata := int64(-1), w.provenance().String()
	switch {
	case w.phase == idle:
	// A term to begin anew commits no progress. But only an answered commit renews the lease, which the flush needs.
	case w.term.restart != nil:
		offset = w.committed
	case w.catalog != nil && w.term.claimed:
		offset = w.committable()
	case w.term.resolved && w.term.quiesced && w.halt == nil: // before D is read, only the start itself may be committed (E6)
		offset = w.term.start.Committed()
		if w.term.committed.Consumed && !w.term.claimed { // the document that decided the start may be an old one
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

// commitAnswered takes the answer to a commit. The answer proves the membership before the claim. In the stream it says up to
// which offset a later term may go on warm. At the end of the term it allows the release.
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

// committable is the offset up to which everything is durable or need not be stored (E6).
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

// ledger knows which offset may be committed (E6). It is the smallest offset with a part that is neither stored, nor skipped as
// stored, nor acknowledged by the dead-letter topic. If there is none, it is the fetch position. The catalog counts
// measurements (Catalog.Oldest), and the ledger counts letters.
type ledger struct {
	// next is the fetch position.
	next int64
	// letters are the offsets of letters that are not acknowledged yet, in the order in which the letters were made. Letters of
	// records that are read again for a refused write are out of order, so committable searches for the smallest. There are few.
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
