package harness

import "sync"

// tailBytes is the number of bytes of a process's output that are kept at least.
const tailBytes = 1 << 20

// tail keeps the end of the data written to it. Its methods may be called by several goroutines.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

// Write appends p, and drops the oldest bytes when there are more than twice tailBytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - tailBytes; over > tailBytes {
		t.bytes = append([]byte(nil), t.bytes[over:]...)
	}
	return len(p), nil
}

// String returns the kept bytes.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.bytes)
}
