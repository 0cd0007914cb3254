package mongodb

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/ocsp"

	"waterwheel/internal/claim"
	"waterwheel/internal/timeseries"
)

// dialer makes the driver's connections. It does TLS itself, so that the guard above it sees plain messages.
type dialer struct {
	tls         *tls.Config         // Nil means no TLS.
	revocation  *ocsp.VerifyOptions // Nil means that revocation is not checked.
	sendTimeout time.Duration       // of unacknowledged bytes
	guard       guard

	mu     sync.Mutex
	failed map[string]*dialError // last failure by address, until a connection succeeds; for messages only
}

// dialError is a failed attempt to open a connection. Nothing was sent on it.
type dialError struct {
	Address string
	TLS     bool // the TLS handshake failed
	Err     error
}

// Error names the address.
func (e *dialError) Error() string { return fmt.Sprintf("%s: %v", e.Address, e.Err) }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.Err }

// DialContext opens a connection, does the TLS handshake and wraps the connection in the guard.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, failed := d.dial(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if failed != nil {
		d.failed[address] = failed
		return nil, failed
	}
	delete(d.failed, address)
	return conn, nil
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, *dialError) {
	plain := net.Dialer{Control: controlSocket(d.sendTimeout)}
	raw, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, &dialError{Address: address, Err: err}
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		// Bytes of an abandoned write must not be delivered late, so a close discards what the kernel still holds.
		if err := tcp.SetLinger(0); err != nil {
			raw.Close()
			return nil, &dialError{Address: address, Err: err}
		}
	}
	leased := &leasedConn{Conn: raw, guard: d.guard}
	if d.tls == nil {
		return &guardedConn{Conn: leased, raw: leased}, nil
	}
	secure, err := d.handshake(ctx, leased, address)
	if err != nil {
		raw.Close()
		return nil, &dialError{Address: address, TLS: true, Err: err}
	}
	return &guardedConn{Conn: secure, raw: leased}, nil
}

func (d *dialer) handshake(ctx context.Context, raw net.Conn, address string) (*tls.Conn, error) {
	config := d.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = hostOf(address)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if d.revocation != nil && !config.InsecureSkipVerify {
		if err := ocsp.Verify(ctx, conn.ConnectionState(), d.revocation); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// failures returns the last failure of each address that cannot be connected to, in the order of the addresses.
func (d *dialer) failures() (all failures) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(d.failed)) {
		all = append(all, d.failed[address])
	}
	return all
}

// failures are failed attempts to open connections.
type failures []*dialError

// String lists the failures.
func (f failures) String() string {
	lines := make([]string, len(f))
	for i, e := range f {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "; ")
}

// inTLS returns the failures of TLS handshakes.
func (f failures) inTLS() (all failures) {
	for _, e := range f {
		if e.TLS {
			all = append(all, e)
		}
	}
	return all
}

// all reports whether each failure has a cause.
func (f failures) all(cause func(error) bool) bool {
	return !slices.ContainsFunc(f, func(e *dialError) bool { return !cause(e.Err) })
}

// unknownHost returns a host name that could not be resolved. Empty means none.
func (f failures) unknownHost() string {
	for _, e := range f {
		if asked, ok := errors.AsType[*net.DNSError](e.Err); ok {
			return asked.Name
		}
	}
	return ""
}

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
