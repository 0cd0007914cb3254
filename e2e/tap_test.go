package e2e_test

import (
	"bufio"
	"crypto/tls"
	"hash/maphash"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// tappedWrite is a message that writes buckets, or an incomplete message, which may or may not do so.
type tappedWrite struct {
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
	Statements []tappedStatement
}

// tappedStatement is the write of one bucket.
type tappedStatement struct {
	Bucket bson.ObjectID
}

// tap forwards the connections made to its address to a MongoDB, and changes nothing. For each write of buckets it records the
// time of the first byte, the number of bytes, and the time of the server's answer. The answer may come after the client has
// disconnected. Its methods may be called by several goroutines.
type tap struct {
	*proxy.Proxy
	secure *tls.Config

	mu     sync.Mutex
	writes []*tappedWrite
	part   map[*tappedWrite]struct{} // incomplete writes
}

// newTap listens on a free port for connections to the server at target. If secure is not nil, clients connect with TLS, which ends
// at the tap. The caller closes the tap.
func newTap(target string, secure *tls.Config) (_ *tap, err error) {
	t := &tap{secure: secure, part: map[*tappedWrite]struct{}{}}
	t.Proxy, err = proxy.New(target, t.serve)
	return t, err
}

// Writes returns the writes of buckets so far, ordered by their first bytes. It includes incomplete messages.
func (t *tap) Writes() []tappedWrite {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]tappedWrite, 0, len(t.writes)+len(t.part))
	for _, w := range t.writes {
		all = append(all, *w)
	}
	for w := range t.part {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b tappedWrite) int { return a.Began.Compare(b.Began) })
	return all
}

// serve forwards one connection until either side ends it.
func (t *tap) serve(client, server net.Conn) {
	c := &tapped{tap: t, client: client, server: server, plain: client, waiting: map[int32]*tappedWrite{}}
	if t.secure != nil {
		c.plain = tls.Server(client, t.secure)
	}
	proxy.Both(c.answers, c.requests)
}

// tapBytes is the largest number of bytes that a tap forwards at once.
const tapBytes = 64 << 10

// tapped is a client's connection and the connection to the server that belongs to it. The tap's lock guards the fields after
// plain.
type tapped struct {
	tap            *tap
	client, server net.Conn
	plain          net.Conn // the client without TLS

	waiting map[int32]*tappedWrite // complete writes without an answer, by request id
	sending *tappedWrite           // the latest write
	alone   bool                   // the client has disconnected
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
		proxy.Abort(c.server)
	}
}

// request forwards one message.
func (c *tapped) request(from *bufio.Reader) error {
	if _, err := from.Peek(1); err != nil {
		return err
	}
	began := time.Now()
	m, length, err := proxy.ReadHeader(from)
	if err != nil {
		return err
	}
	w := &tappedWrite{Length: length, Received: len(m), Began: began}
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
func (c *tapped) whole(w *tappedWrite, m proxy.Message) {
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
	proxy.Abort(c.client)
	proxy.Abort(c.server)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	for _, w := range c.waiting {
		w.Ended = time.Now()
	}
}

// answer forwards one answer. It returns false after the last one.
func (c *tapped) answer(from *bufio.Reader) bool {
	m, length, err := proxy.ReadHeader(from)
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
func (w *tappedWrite) read(m proxy.Message) bool {
	c, kind, ok := proxy.ParseBucketWrite(m)
	if !ok {
		return false
	}
	w.Sum, w.Kind = maphash.Bytes(seed, m), kind
	for _, d := range c.Documents {
		s := tappedStatement{}
		if kind == "insert" {
			s.Bucket, _ = d.Lookup("_id").ObjectIDOK()
		} else {
			s.Bucket, _ = d.Lookup("q", "_id").ObjectIDOK()
		}
		w.Statements = append(w.Statements, s)
	}
	return true
}

// TestNotesAnswersWhoseClientIsGone has a client, a tap, a link that is cut, another tap, and the server, in this order.
func TestNotesAnswersWhoseClientIsGone(t *testing.T) {
	uri, err := url.Parse(harness.EmbeddedMongo(t).URI())
	if err != nil {
		t.Fatal(err)
	}
	address, err := harness.NewLinkAddress()
	if err != nil {
		t.Fatal(err)
	}
	far := tapBefore(t, uri.Host)
	between, err := proxy.NewLink(address, far.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(between.Close)
	near := tapBefore(t, between.Address())
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + near.Address() + "/?directConnection=true&retryWrites=false"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(t.Context()) })
	buckets := client.Database("tap").Collection("things.buckets")
	id := bson.NewObjectID()
	document := bson.D{{Key: "_id", Value: id}, {Key: "control", Value: bson.D{{Key: "source", Value: bson.D{
		{Key: "offsets", Value: bson.A{bson.Binary{Data: []byte{4}}}},
	}}}}}
	if _, err := buckets.InsertOne(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	between.LoseAnswers()
	lost := make(chan error)
	go func() {
		_, err := buckets.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: id}},
			bson.D{{Key: "$push", Value: bson.D{{Key: "control.source.offsets", Value: bson.Binary{Data: []byte{8}}}}}})
		lost <- err
	}()
	for end := time.Now().Add(10 * time.Second); len(far.Writes()) < 2 || far.Writes()[1].Answered.IsZero(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", far.Writes())
		}
	}
	between.Cut()
	if err := <-lost; err == nil {
		t.Error("the client got an answer that was lost")
	}
	at, behind := near.Writes(), far.Writes()
	if len(at) != 2 || len(behind) != 2 {
		t.Fatalf("%+v\n%+v", at, behind)
	}
	for i := range at {
		if at[i].Sum != behind[i].Sum || at[i].Sum == 0 || len(at[i].Statements) != 1 || at[i].Statements[0].Bucket != id {
			t.Errorf("%d: %+v, %+v", i, at[i], behind[i])
		}
	}
	if at[0].Answered.IsZero() || !at[1].Answered.IsZero() || at[1].Began.After(behind[1].Began) {
		t.Errorf("%+v, %+v", at, behind)
	}
}

func tapBefore(t *testing.T, target string) *tap {
	t.Helper()
	made, err := newTap(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}
