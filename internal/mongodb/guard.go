package mongodb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// The two operations of the wire protocol that the driver sends: OP_MSG carries every command; OP_QUERY only the very
// first greeting of a connection.
const (
	opQuery = 2004
	opMsg   = 2013
)

// guard stops bucket writes and claims on their last step, before they are handed to the kernel (E7).
type guard struct {
	// lease reports whether they may be sent now. Nil means always.
	lease func() bool
	// stopped is called when one was stopped; may be nil.
	stopped func()
}

// held asks the lease, and reports a no.
func (g guard) held() bool {
	if g.lease == nil || g.lease() {
		return true
	}
	if g.stopped != nil {
		g.stopped()
	}
	return false
}

// guarded reports whether a wire message writes buckets or partition documents. What cannot be read as a message counts as
// one: only reads, greetings and writes of the options document pass.
func guarded(message []byte) bool {
	const header = 16
	if len(message) < header || int(binary.LittleEndian.Uint32(message)) != len(message) {
		return true
	}
	switch binary.LittleEndian.Uint32(message[12:]) {
	case opQuery:
		return false
	case opMsg:
		command, collection, ok := commandOf(message[header:])
		return !ok || slices.Contains(writes, command) && !strings.HasSuffix(collection, timeseries.OptionsSuffix)
	default:
		return true
	}
}

// writes are the commands that write.
var writes = []string{"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"}

// commandOf reads the first element of the command in the body of an OP_MSG: its name, and its value when that is a
// string.
func commandOf(body []byte) (command, collection string, ok bool) {
	const (
		preamble   = 4 + 1 + 4 // flags, kind of the section, length of the document
		typeString = 2
	)
	if len(body) < preamble+1 || body[4] != 0 {
		return "", "", false
	}
	kind, rest := body[preamble], body[preamble+1:]
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		return "", "", false
	}
	command, rest = string(rest[:end]), rest[end+1:]
	if kind != typeString {
		return command, "", true
	}
	if len(rest) < 4 {
		return "", "", false
	}
	length := int(binary.LittleEndian.Uint32(rest))
	if length < 1 || length > len(rest)-4 {
		return "", "", false
	}
	return command, string(rest[4 : 4+length-1]), true
}

// guardedConn is a connection of the driver under a guard: it tells which messages are guarded. The driver writes each
// message in one call of Write.
type guardedConn struct {
	net.Conn // TLS, or raw itself
	raw      *leasedConn
	// unanswered means that a guarded message was sent and no byte has come back since.
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
