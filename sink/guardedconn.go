package sink

import (
	"errors"
	"net"
	"sync/atomic"

	"waterwheel/internal/claim"
)

// guardedConn is a connection of the driver under a guard: it tells which messages are guarded. The driver writes each
// message in one call of Write.
type guardedConn struct {
	net.Conn // TLS, or raw itself
	raw      *leasedConn
	// unanswered: a guarded message was sent and no byte has come back since.
	unanswered atomic.Bool
}

// Write sends a message. One that is guarded goes out only while the lease holds. When it lapses, or anything else stops
// the message, the connection is closed: an incomplete message is never executed. ErrLapsed is of that kind.
func (c *guardedConn) Write(message []byte) (int, error) {
	if !guarded(message) {
		return c.Conn.Write(message)
	}
	c.unanswered.Store(true)
	c.raw.guarding.Store(true)
	defer c.raw.guarding.Store(false)
	n, err := c.Conn.Write(message)
	if err != nil {
		c.raw.Close()
	}
	return n, err
}

// Read reads an answer. When none comes to a guarded message, the connection is closed with what the kernel may still
// hold of it: the driver would keep it and wait for the answer later.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.unanswered.Store(false)
	}
	if err != nil && c.unanswered.Load() {
		c.raw.Close()
	}
	return n, err
}

// Close closes the connection, without the farewell of TLS when a guarded message is unanswered: the kernel would have to
// deliver that message first.
func (c *guardedConn) Close() error {
	if c.unanswered.Load() {
		return c.raw.Close()
	}
	return c.Conn.Close()
}

// leasedConn is the connection that the kernel has, below TLS where there is TLS: what TLS has made of a message is
// stopped like the message itself.
type leasedConn struct {
	net.Conn
	guard    guard
	guarding atomic.Bool // the bytes written now belong to a guarded message
}

// Write sends bytes, those of a guarded message piece by piece, with a look at the lease before each. A process may be
// stopped whenever it waits for room in the kernel, and go on when the lease is long over and another consumer has the
// partition: the rest must not follow then.
func (c *leasedConn) Write(b []byte) (int, error) {
	if !c.guarding.Load() {
		return c.Conn.Write(b)
	}
	n, err := writePieces(c.Conn, b, c.guard.held)
	if errors.Is(err, claim.ErrLapsed) {
		c.Conn.Close() // at once: the kernel drops what it has of the message
	}
	return n, err
}

// pieceBytes is how many bytes of a guarded message are handed to the kernel at most after one look at the lease.
const pieceBytes = 64 << 10

// piece is what to hand over next of bytes of which some were sent.
func piece(b []byte, sent int) []byte { return b[sent:min(sent+pieceBytes, len(b))] }
