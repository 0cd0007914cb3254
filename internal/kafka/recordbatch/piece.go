package recordbatch

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"waterwheel/internal/record"
)

// piece is the memory of the records that are given out at a time. They alias its buffers, or the set.
type piece struct {
	records  []record.Record
	bytes    int      // of the records
	plain    [][]byte // the decompressed buffers, of which the first used are in use
	used     int
	loan     *loan // of the set that the records may alias. Nil means none.
	home     *sync.Pool
	released func() // p.release, made once
}

func newPiece(home *sync.Pool) *piece {
	p := &piece{home: home}
	p.released = p.release
	return p
}

// keepBytes is the largest size of a released piece that is kept for the next use.
const keepBytes = 4 << 20

// size is the memory in bytes that the piece holds until its release, without the set.
func (p *piece) size() int64 {
	size := int64(cap(p.records)) * int64(unsafe.Sizeof(record.Record{}))
	for _, plain := range p.plain {
		size += int64(cap(plain))
	}
	return size
}

// release returns the memory for another piece.
func (p *piece) release() {
	set := p.loan
	p.loan = nil
	if p.size() <= keepBytes {
		p.reset()
		p.home.Put(p)
	}
	set.leave()
}

func (p *piece) reset() {
	clear(p.records)
	p.records, p.bytes, p.used = p.records[:0], 0, 0
}

// nextPlain returns the next buffer for decompressed bytes.
func (p *piece) nextPlain() *[]byte {
	if p.used == len(p.plain) {
		p.plain = append(p.plain, nil)
	}
	p.used++
	return &p.plain[p.used-1]
}

// keepPlain leaves the last buffer to its reader, so that the next piece gets another one.
func (p *piece) keepPlain() {
	p.used--
	p.plain[p.used] = nil
}

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
