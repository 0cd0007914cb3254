// Package logtest lets tests read a log that goroutines are writing.
package logtest

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Lines is a log that several goroutines write while a test reads it.
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

// String returns the log so far.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Await waits until the log contains a text, for at most 20 s.
func (l *Lines) Await(t *testing.T, text string) {
	t.Helper()
	for begun := time.Now(); !strings.Contains(l.String(), text); runtime.Gosched() {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("no line has %s:\n%s", text, l)
		}
	}
}
