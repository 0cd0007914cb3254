package pipeline

// ledger knows which offset may be committed (E6): the smallest offset of which some part is not yet stored, skipped as
// stored, or acknowledged by the dead-letter topic; with nothing open, the fetch position. Measurements are the
// catalog's to count (Catalog.Oldest), letters are counted here.
type ledger struct {
	// next is the fetch position.
	next int64
	// letters are the offsets of letters not yet acknowledged, in the order they came up. Those of records read again for
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
