package recordbatch

import "sync/atomic"

// loan counts who may still read the bytes of a set: its reader, and each piece that it gave out, for uncompressed records are
// not copied. Pieces are released on another goroutine than the reader is closed on, and in any order. A nil loan is of a set
// that nobody wants back.
//
// Whatever else looks into the set does so through its reader, and ends with it:
//   - openBatch (raw, packed, plain) and decoder.set are dropped by Reader.Close, and by Take after an error;
//   - an unfolder may keep its place in a payload after that, but reads it only for the openBatch that owns it, and close has
//     made it forget that one; codecs of the pool begin with a payload of their own;
//   - what is unfolded lies in buffers of the piece, and what a long record is cut to is a copy;
//   - the one record of a skipped record batch is a copy, and an error of Take has no bytes of it, only its text.
type loan struct {
	users atomic.Int32
	free  func()
}

// newLoan is the reader's own.
func newLoan(free func()) *loan {
	if free == nil {
		return nil
	}
	l := &loan{free: free}
	l.users.Store(1)
	return l
}

// joined is the loan with one user more.
func (l *loan) joined() *loan {
	if l != nil {
		l.users.Add(1)
	}
	return l
}

// leave is one user less.
func (l *loan) leave() {
	if l != nil && l.users.Add(-1) == 0 {
		l.free()
	}
}
