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

// The two operations of the wire protocol that the driver sends. OP_MSG carries every command. OP_QUERY carries only the very
// first greeting of a connection.
const (
	opQuery = 2004
	opMsg   = 2013
)

// guard stops bucket writes and claims at the last step before the kernel (E7).
type guard struct {
	// lease reports whether such writes may be sent now. Nil means always.
	lease func() bool
	// stopped is called when a write was stopped. It may be nil.
	stopped func()
}

// held asks the lease. It calls stopped if the lease does not hold.
func (g guard) held() bool {
	if g.lease == nil || g.lease() {
		return true
	}
	if g.stopped != nil {
		g.stopped()
	}
	return false
}

// guarded reports whether a wire message writes buckets or partition documents. A message that cannot be read counts as such a
// write. Only reads, greetings and writes of the options document are not guarded.
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

// writes holds the commands that write.
var writes = []string{"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"}

// commandOf reads the first element of the command in the body of an OP_MSG. It returns the element's name, and its value if that
// is a string.
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

// guardedConn is a driver's connection under a guard. It knows which messages are guarded, because the driver writes each message
// in one call of Write.
type guardedConn struct {
	net.Conn // TLS, or raw itself
	raw      *leasedConn
	// unanswered means that a guarded message was sent and no byte has come back since.
	unanswered atomic.Bool
}

// Write sends a message. A guarded message is sent only while the lease holds. If the lease lapses (claim.ErrLapsed) or anything
// else stops the message, Write closes the connection. A server never executes an incomplete message.
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

// Read reads an answer. If a guarded message gets no answer, Read closes the connection together with the bytes that the kernel
// still holds. Otherwise the driver would keep the connection and wait for the answer later.
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

// Close closes the connection. If a guarded message is unanswered, it skips the TLS close message, before which the kernel would
// have to deliver the guarded message.
func (c *guardedConn) Close() error {
	if c.unanswered.Load() {
		return c.raw.Close()
	}
	return c.Conn.Close()
}

// leasedConn is the kernel's connection below TLS, if there is TLS. It stops the TLS records of a message like the message
// itself.
type leasedConn struct {
	net.Conn
	guard    guard
	guarding atomic.Bool // the bytes written now belong to a guarded message
}

// Write sends bytes. It sends a guarded message in pieces and asks the lease before each. A process may be stopped while it waits
// for room in the kernel. It may continue long after the lease is over, when another consumer has the partition. The rest must
// not be sent then.
func (c *leasedConn) Write(b []byte) (int, error) {
	if !c.guarding.Load() {
		return c.Conn.Write(b)
	}
	n, err := writePieces(c.Conn, b, c.guard.held)
	if errors.Is(err, claim.ErrLapsed) {
		c.Conn.Close() // at once, so that the kernel drops what it has of the message
	}
	return n, err
}

// pieceBytes is the most bytes of a guarded message that go to the kernel after one look at the lease.
const pieceBytes = 64 << 10

// piece returns the next piece of b when sent bytes were sent.
func piece(b []byte, sent int) []byte { return b[sent:min(sent+pieceBytes, len(b))] }
