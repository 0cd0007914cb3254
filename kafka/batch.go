package kafka

import (
	"sync"
	"unsafe"
)

// Batch is a piece of the log. Its records alias its buffers, or the answer that its Cursor holds.
type Batch struct {
	// Records are in the order of their offsets, which may have gaps.
	Records []Record
	// Next is where to fetch from next: past what was read, whether it was given out or not (transaction markers,
	// aborted records, offsets that compaction has emptied).
	Next int64
	// HighWatermark is the offset after the last replicated record, LastStable the offset of the first open
	// transaction or else the same, LogStart the first offset that is still there.
	HighWatermark, LastStable, LogStart int64

	bytes int      // of the records
	plain [][]byte // what was decompressed, the first used of them in use
	used  int
	home  *sync.Pool
}

// keepBytes is the size up to which a released batch waits for the next piece.
const keepBytes = 4 << 20

// Size is the memory in bytes that the batch holds until it is released, beside the answer (Cursor.Size).
func (b *Batch) Size() int64 {
	size := int64(cap(b.Records)) * int64(unsafe.Sizeof(Record{}))
	for _, plain := range b.plain {
		size += int64(cap(plain))
	}
	return size
}

// Release gives the batch's memory back for another piece. Call it at most once; records are gone after it.
func (b *Batch) Release() {
	if b.home == nil || b.Size() > keepBytes {
		return
	}
	clear(b.Records)
	b.Records, b.bytes, b.used = b.Records[:0], 0, 0
	b.home.Put(b)
}

// nextPlain gives the buffer for what is decompressed next.
func (b *Batch) nextPlain() *[]byte {
	if b.used == len(b.plain) {
		b.plain = append(b.plain, nil)
	}
	b.used++
	return &b.plain[b.used-1]
}

// keepPlain leaves the buffer that was given last to whoever goes on reading it: the next batch gets another one.
func (b *Batch) keepPlain() {
	b.used--
	b.plain[b.used] = nil
}
