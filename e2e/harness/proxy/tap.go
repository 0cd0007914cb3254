package proxy

import (
	"bufio"
	"crypto/tls"
	"hash/maphash"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Write is a message that writes buckets, or an incomplete message, which may or may not do so.
type Write struct {
	// Sum identifies the message. Two taps on the same path compute the same sum. Zero means that the message is incomplete.
	Sum uint64
	// Length is the length in the message's header. Received is the number of bytes that have arrived so far.
	Length, Received int
	// Began and Whole are the times of the first and last byte of the message. Answered is the time of the first byte of the
	// server's answer. Ended is when the connection ended, so that neither more bytes nor an answer can arrive. A zero time means
	// not yet, or never.
	Began, Whole, Answered, Ended time.Time
	// Kind is insert or update.
	Kind       string
	Statements []Statement
}

// Statement is the write of one bucket.
type Statement struct {
	Bucket bson.ObjectID
}

// Tap forwards the connections made to its address to a MongoDB, and changes nothing. For each write of buckets it records the
// time of the first byte, the number of bytes, and the time of the server's answer. The answer may come after the client has
// disconnected. Its methods may be called by several goroutines.
type Tap struct {
	*Proxy
	secure *tls.Config

	mu     sync.Mutex
	writes []*Write
	part   map[*Write]struct{} // incomplete writes
}

// NewTap listens on a free port for connections to the server at target. If secure is not nil, clients connect with TLS, which ends
// at the tap. The caller closes the tap.
func NewTap(target string, secure *tls.Config) (_ *Tap, err error) {
	t := &Tap{secure: secure, part: map[*Write]struct{}{}}
	t.Proxy, err = New(target, t.serve)
	return t, err
}

// Writes returns the writes of buckets so far, ordered by their first bytes. It includes incomplete messages.
func (t *Tap) Writes() []Write {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Write, 0, len(t.writes)+len(t.part))
	for _, w := range t.writes {
		all = append(all, *w)
	}
	for w := range t.part {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b Write) int { return a.Began.Compare(b.Began) })
	return all
}

// serve forwards one connection until either side ends it.
func (t *Tap) serve(client, server net.Conn) {
	c := &tapped{tap: t, client: client, server: server, plain: client, waiting: map[uint32]*Write{}}
	if t.secure != nil {
		c.plain = tls.Server(client, t.secure)
	}
	Both(c.answers, c.requests)
}

// tapBytes is the largest number of bytes that a tap forwards at once.
const tapBytes = 64 << 10

// tapped is a client's connection and the connection to the server that belongs to it. The tap's lock guards the fields after
// plain.
type tapped struct {
	tap            *Tap
	client, server net.Conn
	plain          net.Conn // the client without TLS

	waiting map[uint32]*Write // complete writes without an answer, by request id
	sending *Write            // the latest write
	alone   bool              // the client has disconnected
}

// requests forwards the client's messages, piece by piece. After the client has disconnected, the server may still answer.
func (c *tapped) requests() {
	from := bufio.NewReaderSize(c.plain, tapBytes)
	for c.request(from) == nil {
	}
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	if c.sending != nil && c.sending.Whole.IsZero() {
		c.sending.Ended = time.Now()
	}
	if c.alone = true; len(c.waiting) == 0 {
		Abort(c.server)
	}
}

// request forwards one message.
func (c *tapped) request(from *bufio.Reader) error {
	if _, err := from.Peek(1); err != nil {
		return err
	}
	began := time.Now()
	m, length, err := ReadHeader(from)
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
		m = slices.Grow(m, min(tapBytes, length-sent))
		n, err := from.Read(m[sent:min(cap(m), sent+tapBytes, length)])
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
func (c *tapped) whole(w *Write, m Message) {
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
func (c *tapped) answers() {
	from := bufio.NewReaderSize(c.server, tapBytes)
	for c.answer(from) {
	}
	Abort(c.client)
	Abort(c.server)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	for _, w := range c.waiting {
		w.Ended = time.Now()
	}
}

// answer forwards one answer. It returns false after the last one.
func (c *tapped) answer(from *bufio.Reader) bool {
	m, length, err := ReadHeader(from)
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

// seed is shared by all taps of the process.
var seed = maphash.MakeSeed()

// read parses a complete message. It returns false if the message writes no buckets.
func (w *Write) read(m Message) bool {
	c, kind, ok := ParseBucketWrite(m)
	if !ok {
		return false
	}
	w.Sum, w.Kind = maphash.Bytes(seed, m), kind
	for _, d := range c.Documents {
		s := Statement{}
		if kind == "insert" {
			s.Bucket, _ = d.Lookup("_id").ObjectIDOK()
		} else {
			s.Bucket, _ = d.Lookup("q", "_id").ObjectIDOK()
		}
		w.Statements = append(w.Statements, s)
	}
	return true
}
