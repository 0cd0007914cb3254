package recordbatch

import (
	"sync"
	"unsafe"

	"waterwheel/internal/record"
)

// piece is the memory of what is given out at a time. Its records alias its buffers, or the set.
type piece struct {
	records  []record.Record
	bytes    int      // of the records
	plain    [][]byte // the decompressed buffers, the first used of them in use
	used     int
	loan     *loan // of the set that the records may alias. Nil means none.
	home     *sync.Pool
	released func() // release, made once
}

func newPiece(home *sync.Pool) *piece {
	p := &piece{home: home}
	p.released = p.release
	return p
}

// keepBytes is the size up to which a released piece waits for the next use.
const keepBytes = 4 << 20

// size is the memory in bytes that the piece holds until it is released, beside the set.
func (p *piece) size() int64 {
	size := int64(cap(p.records)) * int64(unsafe.Sizeof(record.Record{}))
	for _, plain := range p.plain {
		size += int64(cap(plain))
	}
	return size
}

// release gives the memory back for another piece.
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

// nextPlain gives the buffer for what is decompressed next.
func (p *piece) nextPlain() *[]byte {
	if p.used == len(p.plain) {
		p.plain = append(p.plain, nil)
	}
	p.used++
	return &p.plain[p.used-1]
}

// keepPlain leaves the buffer that was given last to whoever goes on reading it: the next piece gets another one.
func (p *piece) keepPlain() {
	p.used--
	p.plain[p.used] = nil
}
