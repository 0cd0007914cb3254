package recordbatch

import (
	"errors"
	"math"
	"sync"

	"waterwheel/internal/record"
)

var (
	// ErrCorrupt is a record batch whose checksum or structure is wrong.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrUnreadable is a record batch that will never be readable here: of an old format, an unknown codec, or too large.
	ErrUnreadable = errors.New("unreadable record batch")
)

// Options are what all readers of a process have in common.
type Options struct {
	// PieceBytes is how much is unfolded at a time, of records that take so much on the average that there are no more than a
	// 128th of it. RecordBytes is the longest record that is unfolded whole; of a longer one the beginning of key and value is
	// given out (record.Record.Cut).
	PieceBytes, RecordBytes int
	// SkipCorrupt are the places of record batches that are passed over if they cannot be read.
	SkipCorrupt []record.Place
}

// Memory is what the readers of a process share. It is safe for concurrent use; a Reader is not.
type Memory struct {
	options   Options
	pieces    sync.Pool // of *piece
	codecs    sync.Pool // of *codecs
	unfolders *unfolders
}

// NewMemory holds nothing yet.
func NewMemory(o Options) *Memory {
	m := &Memory{options: o, unfolders: newUnfolders()}
	m.pieces.New = func() any { return newPiece(&m.pieces) }
	m.codecs.New = func() any { return &codecs{limit: o.PieceBytes} }
	return m
}

// Set is what a broker sent of a partition.
type Set struct {
	record.Partition
	// Bytes are record batches one after the other, of which the last may be cut off.
	Bytes []byte
	// From is the offset that was asked for, End the high watermark.
	From, End int64
	Aborted   []Aborted
	// Free, where it is not nil, is called once when nothing reads Bytes any more: the reader is closed, and every batch that it
	// gave out was released. It is called by whoever is the last of them, and never when one batch is not released.
	Free func()
}

// Piece bounds what a Reader gives out at a time. Both may be exceeded: by one record, or by a record batch that unfolds to
// no more than Options.PieceBytes.
type Piece struct{ Bytes, Records int }

// recordBytes is how small the records of a piece are on the average before it is bounded by their number.
const recordBytes = 128

// PieceOf is a piece of about so many bytes.
func PieceOf(bytes int) Piece { return Piece{bytes, max(bytes/recordBytes, 1)} }

// Reader gives a set out piece by piece, and again from any of its offsets on.
type Reader struct {
	set     Set
	memory  *Memory
	decoder decoder
	loan    *loan // of the set's bytes. Nil means closed.
}

// NewReader reads a set. Its bytes are the reader's, and those of the records it gives out, until Set.Free is called.
func (m *Memory) NewReader(s Set) *Reader {
	r := &Reader{set: s, memory: m, loan: newLoan(s.Free)}
	r.rewind(s.From)
	return r
}

// Has reports whether what follows an offset is in the set.
func (r *Reader) Has(offset int64) bool {
	switch {
	case offset < r.set.From || offset > r.decoder.next:
		return false
	case offset == r.decoder.next:
		return r.decoder.more()
	}
	return true
}

// Take gives out the next piece from an offset on. An error is the first thing that is left when it is returned, at that
// offset; nothing is left behind it, or behind a record batch that was skipped: the broker must be asked again.
func (r *Reader) Take(offset int64, most Piece) (record.Batch, error) {
	if offset != r.decoder.next {
		r.rewind(offset)
	}
	p := r.memory.pieces.Get().(*piece)
	err := r.decoder.piece(p, most)
	if err == nil {
		p.loan = r.loan.joined()
		return record.Batch{Records: p.records, Next: r.decoder.next, Bytes: p.size(), Release: p.released}, nil
	}
	p.release()
	defer r.Close()
	if bad, ok := errors.AsType[*unreadable](err); ok {
		return r.skip(offset, bad)
	}
	return record.Batch{}, err
}

// Close frees what is held between two pieces. Nothing can be taken any more.
func (r *Reader) Close() {
	r.decoder.close()
	r.set, r.decoder.set = Set{From: math.MaxInt64}, nil
	r.loan.leave()
	r.loan = nil
}

// Kept is the memory in bytes that is held between two pieces, beside the set.
func (r *Reader) Kept() int64 { return r.decoder.kept() }

// rewind begins the set anew, to give out what it has from an offset on.
func (r *Reader) rewind(offset int64) {
	r.decoder.close()
	r.decoder = decoder{Memory: r.memory, set: r.set.Bytes, next: offset, first: offset, aborted: newAbortedTransactions(r.set.Aborted)}
}
