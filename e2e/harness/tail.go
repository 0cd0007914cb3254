package harness

import "sync"

// tailBytes is how much of a process's output is kept.
const tailBytes = 1 << 20

// tail keeps the end of what is written to it. Its methods may be called by several goroutines.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

// Write keeps p, and forgets the oldest bytes when they become too many.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - tailBytes; over > tailBytes {
		t.bytes = append([]byte(nil), t.bytes[over:]...)
	}
	return len(p), nil
}

// String is what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.bytes)
}
