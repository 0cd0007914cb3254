//go:build unix

package mongodb

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"waterwheel/internal/claim"
)

// The receive buffer is so small that the kernel accepts a message in many pieces only.
func init() {
	listening.Control = func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
	}
}

// TestGuardAsksBeforeEverySystemCall covers a kernel that accepts only a part of a piece. When it has room for the rest, the
// lease has lapsed, as after a stop of the process.
func TestGuardAsksBeforeEverySystemCall(t *testing.T) {
	eachTransport(t, func(t *testing.T, secure bool) {
		stopped := make(chan struct{}, 100)
		var asked atomic.Int32
		p := dialPair(t, secure, guard{
			lease:   func() bool { return asked.Add(1) <= 2 },
			stopped: func() { stopped <- struct{}{} },
		})
		if err := p.raw.Conn.(*net.TCPConn).SetWriteBuffer(1); err != nil {
			t.Fatal(err)
		}
		p.collect()
		m := large(pieceBytes - 1024) // one piece
		n, err := p.Write(m)
		if !errors.Is(err, claim.ErrLapsed) || n >= len(m) || len(stopped) != 1 {
			t.Errorf("%d of %d bytes, %v, stopped %d times", n, len(m), err, len(stopped))
		}
		if err != nil && asked.Load() != 3 {
			t.Errorf("asked %d times", asked.Load())
		}
		p.Close()
		if got := <-p.received; len(got) >= len(m) {
			t.Errorf("the whole message came: %d bytes", len(got))
		}
	})
}
