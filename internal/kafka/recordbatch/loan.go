package recordbatch

import "sync/atomic"

// loan counts the readers of a set's bytes: its Reader, and each piece that it gave out, because uncompressed records are not
// copied. Pieces are released in any order, and on another goroutine than that of the Reader. A nil loan belongs to a set without
// Free.
//
// Everything else that reads the set does so through its Reader and ends with it:
//   - Reader.Close drops openBatch (raw, packed, plain) and decoder.set. So does Take after an error.
//   - An unfolder may keep its place in a payload longer, but reads it only for the openBatch that owns it. close makes the
//     unfolder forget that openBatch. Codecs of the pool begin with a new payload.
//   - Unfolded bytes lie in buffers of the piece, and the kept parts of a long record are copies.
//   - The single record of a skipped record batch is a copy. An error of Take holds text and none of the bytes.
type loan struct {
	users atomic.Int32
	free  func()
}

// newLoan returns a loan with one user, the reader.
func newLoan(free func()) *loan {
	if free == nil {
		return nil
	}
	l := &loan{free: free}
	l.users.Store(1)
	return l
}

// joined adds a user.
func (l *loan) joined() *loan {
	if l != nil {
		l.users.Add(1)
	}
	return l
}

// leave removes a user. The last one calls free.
func (l *loan) leave() {
	if l != nil && l.users.Add(-1) == 0 {
		l.free()
	}
}
