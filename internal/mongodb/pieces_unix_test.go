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

// A window so small that the kernel takes a message in many pieces.
func init() {
	listening.Control = func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
	}
}

// TestGuardAsksBeforeEverySystemCall: the kernel took a part of a piece, and when it has room for the rest the lease is
// over, as after a stop of the process.
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
