package kafka

import "sync"

const (
	// answerRest bounds the part of an answer that is not record batches: its fields, and some aborted transactions.
	answerRest = 8 << 10
	// keptAnswer is the largest answer whose memory is used again.
	keptAnswer = 4<<20 + answerRest
)

// answerMemory reuses the buffers of large fetch answers, for all partitions. Without it, each answer allocates a large buffer,
// which Go clears. Unused buffers belong to the garbage collector, so partitions at rest hold nothing. It is safe for concurrent
// use.
//
// A fetch takes a buffer when the head of its answer has come. Only the Log that got the answer gives it back, when the Log has
// dropped the answer and all its batches are released (recordbatch.Set.Free). The buffer of a request that failed or was
// abandoned is therefore never lent again, because a goroutine may still read into it. A batch that is never released keeps its
// buffer. Nothing may keep a record's bytes after the release, because unfolded bytes are overwritten then too. Letters,
// re-drives and the check command therefore keep copies.
type answerMemory struct {
	size int       // size of each buffer in bytes. Zero means that nothing is lent.
	pool sync.Pool // of *[]byte
}

// newAnswerMemory returns the memory for fetches of at most fetchBytes.
func newAnswerMemory(fetchBytes int) *answerMemory {
	size := fetchBytes + answerRest
	if size > keptAnswer {
		size = 0
	}
	return &answerMemory{size: size}
}

// lend returns a buffer for an answer of that size. Nil means that the answer allocates its own. Small answers allocate their
// own, so that no answer holds more than twice its size.
func (m *answerMemory) lend(bytes int) []byte {
	if bytes > m.size || bytes <= m.size/2 {
		return nil
	}
	if b, ok := m.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, m.size)
}

// takeBack takes the buffer of an answer that nothing reads any more. It ignores memory that was not lent.
func (m *answerMemory) takeBack(b []byte) {
	if m.size > 0 && cap(b) == m.size {
		m.pool.Put(&b)
	}
}
