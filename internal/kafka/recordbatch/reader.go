package recordbatch

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"waterwheel/internal/record"
)

var (
	// ErrCorrupt means that the checksum or the structure of a record batch is wrong.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrUnreadable means that this program can never read a record batch. Its format is old, its codec unknown, or it is too
	// large.
	ErrUnreadable = errors.New("unreadable record batch")
)

// Options are common to all readers of a process.
type Options struct {
	// PieceBytes bounds how much is unfolded at a time, for records of 128 bytes or more on average. PieceOf bounds the number of
	// smaller ones. RecordBytes is the longest record that is unfolded whole. Of longer records the Reader gives out only the
	// beginning of key and value (record.Record.Cut).
	PieceBytes, RecordBytes int
	// SkipCorrupt holds the places of record batches that are skipped if they cannot be read.
	SkipCorrupt []record.Place
}

// Memory is shared by the readers of a process. It is safe for concurrent use. A Reader is not.
type Memory struct {
	options   Options
	pieces    sync.Pool // of *piece
	codecs    sync.Pool // of *codecs
	unfolders *unfolders
}

// NewMemory returns a Memory without any buffers yet.
func NewMemory(o Options) *Memory {
	m := &Memory{options: o, unfolders: newUnfolders()}
	m.pieces.New = func() any { return newPiece(&m.pieces) }
	m.codecs.New = func() any { return &codecs{limit: o.PieceBytes} }
	return m
}

// Set is the broker's answer for one partition.
type Set struct {
	record.Partition
	// Bytes are consecutive record batches. The last one may be cut off.
	Bytes []byte
	// From is the requested offset. End is the high watermark.
	From, End int64
	Aborted   []Aborted
	// Free, if not nil, is called once when nothing reads Bytes any more, that is, when the reader is closed and every batch that
	// it gave out is released. The last of them calls it. If one batch is never released, Free is never called.
	Free func()
}

// Piece bounds what a Reader gives out at a time. One record may exceed both bounds, and so may a record batch that unfolds to at
// most Options.PieceBytes.
type Piece struct{ Bytes, Records int }

// recordBytes is the average record size in bytes below which the number of records bounds a piece.
const recordBytes = 128

// PieceOf returns a piece of about that size.
func PieceOf(bytes int) Piece { return Piece{bytes, max(bytes/recordBytes, 1)} }

// Reader gives out a set piece by piece. It can begin again at any of the set's offsets.
type Reader struct {
	set     Set
	memory  *Memory
	decoder decoder
	loan    *loan // of the set's bytes. Nil means that the Reader is closed.
}

// NewReader returns a reader of a set. The reader and its records use the set's bytes until Set.Free is called.
func (m *Memory) NewReader(s Set) *Reader {
	r := &Reader{set: s, memory: m, loan: newLoan(s.Free)}
	r.rewind(s.From)
	return r
}

// Has reports whether the set has something to give out at an offset.
func (r *Reader) Has(offset int64) bool {
	switch {
	case offset < r.set.From || offset > r.decoder.next:
		return false
	case offset == r.decoder.next:
		return r.decoder.more()
	}
	return true
}

// Take gives out the next piece from an offset on. An error means that the first thing left, at that offset, cannot be read.
// After an error or a skipped record batch the Reader is empty, and the broker must be asked again.
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

// Close frees what is held between two pieces. After it nothing can be taken.
func (r *Reader) Close() {
	r.decoder.close()
	r.set, r.decoder.set = Set{From: math.MaxInt64}, nil
	r.loan.leave()
	r.loan = nil
}

// Kept is the memory in bytes that is held between two pieces, without the set.
func (r *Reader) Kept() int64 { return r.decoder.kept() }

// rewind starts the set again, to give out records from an offset on.
func (r *Reader) rewind(offset int64) {
	r.decoder.close()
	r.decoder = decoder{Memory: r.memory, set: r.set.Bytes, next: offset, first: offset, aborted: newAbortedTransactions(r.set.Aborted)}
}

// unreadable is an error about a record batch, or the rest of one, that cannot be read.
type unreadable struct {
	offset int64  // the first offset of the batch, or the next wanted one if that is later
	next   int64  // the first offset after the batch
	raw    []byte // the record batch as it came
	err    error
}

// Error says why the batch cannot be read.
func (u *unreadable) Error() string { return u.err.Error() }

// Unwrap returns the cause.
func (u *unreadable) Unwrap() error { return u.err }

// unreadable adds to an error which part of the log it is about. raw is the record batch, or the rest of the set if its end is
// unknown.
func (d *decoder) unreadable(raw []byte, err error) error {
	u := &unreadable{offset: d.next, next: d.next + 1, raw: raw, err: err}
	if len(raw) >= batchRecords {
		h := parseBatchHeader(raw)
		if last := h.base + int64(h.lastDelta); h.base >= 0 && h.base < math.MaxInt64-math.MaxInt32 && last >= d.next {
			u.offset, u.next = max(h.base, d.next), last+1
		}
	}
	return u
}

// skip replaces a record batch that cannot be read by one record that says so, if SkipCorrupt allows it. Otherwise the error says
// how to allow it.
func (r *Reader) skip(from int64, u *unreadable) (record.Batch, error) {
	if r.set.End < u.next { // the end that the batch announces is wrong as well
		u.offset, u.next = from, from+1
	}
	place := record.Place{Partition: r.set.Partition, Offset: u.offset}
	if !slices.Contains(r.memory.options.SkipCorrupt, place) {
		return record.Batch{}, fmt.Errorf("%w; to skip this batch (offsets %d to %d) and write its bytes to one dead letter, set KAFKA_SKIP_CORRUPT=%s",
			u.err, u.offset, u.next-1, place)
	}
	value := bytes.Clone(u.raw) // the set is given back
	why := fmt.Sprintf("offsets %d to %d: %v", u.offset, u.next-1, u.err)
	return record.Batch{Records: []record.Record{{Offset: u.offset, Value: value, Unreadable: why}}, Next: u.next, Bytes: int64(cap(value))}, nil
}

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
