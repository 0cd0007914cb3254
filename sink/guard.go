package sink

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"
)

// guardedChunk is how many bytes are handed to the kernel between two looks at the lease: a process that was stopped in
// between must not send the rest when it goes on.
const guardedChunk = 64 << 10

// The two operations of the wire protocol that the driver sends: OP_MSG carries every command; OP_QUERY only the very
// first greeting of a connection.
const (
	opQuery = 2004
	opMsg   = 2013
)

// guard stops bucket writes and claims on their last step, in the connection's own Write (exactly-once.md §5, E7).
type guard struct {
	// lease tells whether they may be sent now; nil: always.
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

// guardedConn is a connection of the driver under a guard. The driver writes each message in one call of Write.
type guardedConn struct {
	net.Conn // TLS, or raw itself
	raw      net.Conn
	guard    guard
	// unanswered: a guarded message was sent and no byte has come back since.
	unanswered atomic.Bool
}

func newGuardedConn(conn, raw net.Conn, g guard) *guardedConn {
	return &guardedConn{Conn: conn, raw: raw, guard: g}
}

// Write sends a message. One that is guarded goes out in pieces, each only while the lease holds; when it lapses, the
// connection is closed: an incomplete message is never executed, and the error is ErrLapsed.
func (c *guardedConn) Write(message []byte) (int, error) {
	if !guarded(message) {
		return c.Conn.Write(message)
	}
	c.unanswered.Store(true)
	sent := 0
	for sent < len(message) {
		if !c.guard.held() {
			c.raw.Close()
			return sent, ErrLapsed
		}
		n, err := c.Conn.Write(message[sent:min(sent+guardedChunk, len(message))])
		if sent += n; err != nil {
			return sent, err
		}
	}
	return sent, nil
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

// guarded tells whether a wire message writes buckets or partition documents. What cannot be read as a message counts as
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
		return !ok || writes(command) && !strings.HasSuffix(collection, optionsSuffix)
	default:
		return true
	}
}

func writes(command string) bool {
	switch command {
	case "insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite":
		return true
	}
	return false
}

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
