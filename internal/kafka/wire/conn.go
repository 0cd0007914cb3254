package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// Conn is a connection to a broker, between kafka-go and the network. It knows where requests and answers begin and end, and adds
// two things that kafka-go lacks. It refuses an answer whose fields announce more than came, before kafka-go decodes it. And it
// renews a login between two requests, before the broker ends it.
//
// Only one request is under way at a time, and only one goroutine uses the connection at a time. kafka-go guarantees both. Any
// goroutine may close it.
type Conn struct {
	net.Conn
	// Renew may log in again. It is called between two requests. Nil means no renewal.
	Renew func(net.Conn) error

	api     protocol.ApiKey // the request under way
	version int16
	unsent  int    // bytes of the request that are not written yet
	awaited bool   // nothing of the answer has come
	checked []byte // bytes of the answer that are checked and not returned yet
	passing int    // bytes of the answer that are returned unchecked as they come
}

// requestHead is the length of a request's size, api, version and correlation id.
const requestHead = 12

var errOutOfStep = errors.New("requests and answers on the connection do not match")

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.unsent == 0 {
		if err := c.begin(b); err != nil {
			return 0, err
		}
	}
	if len(b) > c.unsent {
		return 0, errOutOfStep
	}
	n, err := c.Conn.Write(b)
	c.unsent -= n
	return n, err
}

// begin starts a request. b is its first piece.
func (c *Conn) begin(b []byte) error {
	if len(b) < requestHead || c.awaited || len(c.checked) > 0 || c.passing > 0 {
		return errOutOfStep
	}
	api, version := protocol.ApiKey(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))
	if !isOwn(api, version) && shapeOf(api, version) == nil {
		return fmt.Errorf("no bounds are known for answers to %v v%d", api, version)
	}
	if c.Renew != nil {
		if err := c.Renew(c.Conn); err != nil {
			return err
		}
	}
	c.api, c.version = api, version
	c.unsent = 4 + int(binary.BigEndian.Uint32(b))
	c.awaited = true
	return nil
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if len(c.checked) == 0 && c.passing == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.checked) > 0 {
		n := copy(b, c.checked)
		c.checked = c.checked[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b[:min(len(b), c.passing)])
	c.passing -= n
	return n, err
}

// next reads the head of an answer. If this module decodes the answer, the rest is returned as it comes, because Reader trusts no
// length. If kafka-go decodes it, next reads and checks it as a whole.
func (c *Conn) next() error {
	if !c.awaited {
		return fmt.Errorf("%w: an answer came although no request had been sent", errOutOfStep)
	}
	c.awaited = false
	var head [answerHead]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return noEOF(err)
	}
	size, err := answerSize(c.api, head)
	if err != nil {
		return err
	}
	if isOwn(c.api, c.version) {
		c.checked, c.passing = head[:], size
		return nil
	}
	body, err := readInto(c.Conn, size, nil)
	if err != nil {
		return err
	}
	if err := shapeOf(c.api, c.version).check(body); err != nil {
		return fmt.Errorf("reading the answer to %v v%d: %w", c.api, c.version, err)
	}
	c.checked = append(head[:], body...)
	return nil
}

// Within calls f and closes the connection if ctx ends meanwhile. After success the connection has no deadline.
func Within(ctx context.Context, on net.Conn, f func() error) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := on.SetDeadline(deadline); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { on.Close() })
	err := f()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return on.SetDeadline(time.Time{})
}
