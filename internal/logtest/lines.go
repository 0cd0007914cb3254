// Package logtest lets tests read a log that goroutines are writing.
package logtest

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Lines are those of a log that several goroutines write, and a test reads between.
type Lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds a line.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String is the log so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Await waits until the log has a text, for 20 s at most.
func (l *Lines) Await(t *testing.T, text string) {
	t.Helper()
	for begun := time.Now(); !strings.Contains(l.String(), text); runtime.Gosched() {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("no line has %s:\n%s", text, l)
		}
	}
}
