package tap

import (
	"bufio"
	"io"
	"net"
	"slices"
	"time"

	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/harness/wire"
)

// pieceBytes is the largest number of bytes that are forwarded at once.
const pieceBytes = 64 << 10

// connection is a client's connection and the connection to the server that belongs to it. The tap's lock guards the fields after
// plain.
type connection struct {
	tap            *Tap
	client, server net.Conn
	plain          net.Conn // the client without TLS

	waiting map[uint32]*Write // complete writes without an answer, by request id
	sending *Write            // the latest write
	alone   bool              // the client has disconnected
}

// requests forwards the client's messages, piece by piece. After the client has disconnected, the server may still answer.
func (c *connection) requests() {
	from := bufio.NewReaderSize(c.plain, pieceBytes)
	for c.request(from) == nil {
	}
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	if c.sending != nil && c.sending.Whole.IsZero() {
		c.sending.Ended = time.Now()
	}
	if c.alone = true; len(c.waiting) == 0 {
		proxy.Abort(c.server)
	}
}

// request forwards one message.
func (c *connection) request(from *bufio.Reader) error {
	if _, err := from.Peek(1); err != nil {
		return err
	}
	began := time.Now()
	m, length, err := wire.ReadHeader(from)
	if err != nil {
		return err
	}
	w := &Write{Length: length, Received: len(m), Began: began}
	c.tap.mu.Lock()
	c.tap.part[w], c.sending = struct{}{}, w
	c.tap.mu.Unlock()
	for sent := 0; ; {
		if len(m) == length {
			c.whole(w, m) // before the server can answer
		}
		if _, err := c.server.Write(m[sent:]); err != nil {
			return err
		}
		if sent = len(m); sent == length {
			return nil
		}
		m = slices.Grow(m, min(pieceBytes, length-sent))
		n, err := from.Read(m[sent:min(cap(m), sent+pieceBytes, length)])
		m = m[:sent+n]
		c.tap.mu.Lock()
		w.Received = len(m)
		c.tap.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// whole records that a message is complete, and forgets it if it writes no buckets.
func (c *connection) whole(w *Write, m wire.Message) {
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	delete(c.tap.part, w)
	w.Whole = time.Now()
	if !w.read(m) {
		return
	}
	c.tap.writes = append(c.tap.writes, w)
	c.waiting[m.RequestID()] = w
}

// answers forwards the server's answers. When the server's connection ends, all waiting writes remain unanswered.
func (c *connection) answers() {
	from := bufio.NewReaderSize(c.server, pieceBytes)
	for c.answer(from) {
	}
	proxy.Abort(c.client)
	proxy.Abort(c.server)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	for _, w := range c.waiting {
		w.Ended = time.Now()
	}
}

// answer forwards one answer. It returns false after the last one.
func (c *connection) answer(from *bufio.Reader) bool {
	m, length, err := wire.ReadHeader(from)
	if err != nil {
		return false
	}
	c.tap.mu.Lock()
	if w := c.waiting[m.ResponseTo()]; w != nil {
		w.Answered = time.Now()
		delete(c.waiting, m.ResponseTo())
	}
	last := c.alone && len(c.waiting) == 0
	c.tap.mu.Unlock()
	if last {
		return false
	}
	_, failed := c.plain.Write(m)
	rest := io.LimitReader(from, int64(length-len(m)))
	if failed == nil {
		_, failed = io.Copy(c.plain, rest)
	}
	if failed != nil { // the client has disconnected, but other writes of it may wait for an answer
		_, err = io.Copy(io.Discard, rest)
	}
	return err == nil
}
