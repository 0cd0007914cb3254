package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
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

const (
	// MaxResponseBytes bounds how many bytes a broker's length field can make this process read. Kafka's own brokers refuse
	// record batches of 100 MiB and more by default.
	MaxResponseBytes = 256 << 20
	// maxAnswerBytes bounds answers without records in the same way.
	maxAnswerBytes = 16 << 20
	// readStep bounds what is allocated ahead of the bytes that have arrived.
	readStep = 4 << 20
)

var (
	// ErrMalformed means that an answer breaks the protocol.
	ErrMalformed = errors.New("malformed answer")
	// errTLSAlert means that a listener with TLS answered a client without TLS.
	errTLSAlert = errors.New("the answer is a TLS alert")
)

// answerHead is the length of an answer's size and correlation id.
const answerHead = 8

// ClientID names this program in the brokers' logs and quotas.
const ClientID = "waterwheel"

// Call is one request: the fields of its header, and its encoded body.
type Call struct {
	API      protocol.ApiKey
	Version  int16
	Flexible bool // the request header is v2 and the response header v1. Both have tags.
	Body     []byte
	// Memory lends a buffer for an answer of that size. A buffer with less capacity is not used. Nil means no lending. If the
	// exchange fails, the buffer is lost, because it belongs to the owner of the answer.
	Memory func(size int) []byte
}

// Exchange sends the call and returns its answer after the correlation id. If the call is flexible, the answer begins with the
// header's tags, and the body follows. The caller owns the answer.
func Exchange(rw io.ReadWriter, c Call) ([]byte, error) {
	correlation := rand.Int32()
	if _, err := rw.Write(c.encode(correlation)); err != nil {
		return nil, err
	}
	var head [answerHead]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, noEOF(err)
	}
	size, err := answerSize(c.API, head)
	if err != nil {
		return nil, err
	}
	if answered := int32(binary.BigEndian.Uint32(head[4:])); answered != correlation {
		return nil, fmt.Errorf("%w: it answers request %d instead of request %d", ErrMalformed, answered, correlation)
	}
	var lent []byte
	if c.Memory != nil {
		lent = c.Memory(size)
	}
	return readInto(rw, size, lent)
}

// answerSize returns how many bytes follow an answer's head.
func answerSize(api protocol.ApiKey, head [answerHead]byte) (int, error) {
	const alert, version = 0x15, 0x03
	if head[0] == alert && head[1] == version {
		return 0, errTLSAlert
	}
	most := maxAnswerBytes
	if api == protocol.Fetch {
		most = MaxResponseBytes
	}
	size := int(int32(binary.BigEndian.Uint32(head[:4]))) - 4
	if size < 0 || size > most {
		return 0, fmt.Errorf("%w: its header says that it has %d bytes", ErrMalformed, size)
	}
	return size, nil
}

// encode encodes the whole request: size, header, body.
func (c Call) encode(correlation int32) []byte {
	b := make([]byte, 4, 32+len(ClientID)+len(c.Body))
	b = binary.BigEndian.AppendUint16(b, uint16(c.API))
	b = binary.BigEndian.AppendUint16(b, uint16(c.Version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(len(ClientID)))
	b = append(b, ClientID...)
	if c.Flexible {
		b = append(b, 0) // no tags
	}
	b = append(b, c.Body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// readInto reads size bytes. It uses lent if that is large enough. Otherwise its buffer grows with the bytes that arrive, and not
// with the announced size.
func readInto(r io.Reader, size int, lent []byte) ([]byte, error) {
	if size <= cap(lent) {
		_, err := io.ReadFull(r, lent[:size])
		return lent[:size], noEOF(err)
	}
	var buffer []byte
	for len(buffer) < size {
		have, step := len(buffer), min(size-len(buffer), readStep)
		buffer = slices.Grow(buffer, step)[:have+step]
		if _, err := io.ReadFull(r, buffer[have:]); err != nil {
			return buffer, noEOF(err)
		}
	}
	return buffer, nil
}

// noEOF turns io.EOF inside an answer into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
