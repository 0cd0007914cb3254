package kafka

import "sync"

const (
	// answerRest is what an answer may have beside the record batches that were asked for: its fields, and some aborted
	// transactions.
	answerRest = 8 << 10
	// keptAnswer bounds the memory of one answer that is used again.
	keptAnswer = 4<<20 + answerRest
)

// answerMemory is what large answers of fetches are read into, one after the other, whichever partition they are of: memory of
// that size is cleared each time it is allocated. Unused memory belongs to the garbage collector, so partitions at rest
// hold nothing. Safe for concurrent use.
//
// It is taken when the head of an answer has come, and given back in one place only: when the Log that got the answer has
// dropped it, and all batches of it are released (recordbatch.Set.Free). So what was lent to a request that failed, or that
// nobody waited for to the end, is never lent again: a goroutine may still be reading into it. A batch that is never released
// keeps its answer. And nobody else may keep a record's bytes beyond its release, for what was compressed is overwritten then
// as well: letters, what a redrive carries and what check keeps are copies.
type answerMemory struct {
	size int       // of each, in bytes. Zero means that nothing is lent.
	pool sync.Pool // of *[]byte
}

// newAnswerMemory is for fetches of so many bytes at most.
func newAnswerMemory(fetchBytes int) *answerMemory {
	size := fetchBytes + answerRest
	if size > keptAnswer {
		size = 0
	}
	return &answerMemory{size: size}
}

// lend gives memory for an answer of so many bytes. Nil means that it is to get its own. A small answer does, so that it holds no more
// than twice what it is.
func (m *answerMemory) lend(bytes int) []byte {
	if bytes > m.size || bytes <= m.size/2 {
		return nil
	}
	if b, ok := m.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, m.size)
}

// takeBack takes the memory of an answer that nothing reads any more. That which was not lent is left alone.
func (m *answerMemory) takeBack(b []byte) {
	if m.size > 0 && cap(b) == m.size {
		m.pool.Put(&b)
	}
}
