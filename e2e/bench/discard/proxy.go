package discard

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"

	"waterwheel/e2e/harness/proxy"
)

// readBytes is the size of the read buffer. A bulk write has megabytes, and each system call costs time.
const readBytes = 256 << 10

// Counts counts the requests that the proxy has answered.
type Counts struct {
	Commands int64 `json:"commands"`
	// Inserts and Updates count documents. An insert opens a bucket, and an update would add to one.
	Inserts int64 `json:"inserts"`
	Updates int64 `json:"updates"`
	// Bytes is the size of these requests.
	Bytes int64 `json:"bytes"`
}

// Proxy forwards all requests between clients and one server, except the writes of buckets.
type Proxy struct {
	*proxy.Proxy

	commands, inserts, updates, bytes atomic.Int64
	answers                           atomic.Uint32
}

// New listens on a free port for connections to the server at target, host and port. The caller closes the proxy.
func New(target string) (*Proxy, error) {
	p := &Proxy{}
	var err error
	p.Proxy, err = proxy.New(target, p.serve)
	return p, err
}

// Counts returns the counts so far.
func (p *Proxy) Counts() Counts {
	return Counts{
		Commands: p.commands.Load(), Inserts: p.inserts.Load(), Updates: p.updates.Load(), Bytes: p.bytes.Load(),
	}
}

// serve runs one connection. Drivers wait for the answer to one request before they send the next on a connection. An answer of
// the proxy therefore never comes in the middle of an answer of the server.
func (p *Proxy) serve(client, server net.Conn) {
	proxy.Both(func() {
		from := bufio.NewReaderSize(client, readBytes)
		for p.request(from, client, server) == nil {
		}
		proxy.Abort(server)
	}, func() {
		_, _ = io.Copy(client, server) // ends when either side ends
		proxy.Abort(client)
	})
}

// request forwards one request, or answers it.
func (p *Proxy) request(from *bufio.Reader, client, server net.Conn) error {
	h, err := peekHead(from)
	if err != nil {
		return err
	}
	if !h.write {
		_, err := io.CopyN(server, from, int64(h.length))
		return err
	}
	n, err := h.countDocuments(from)
	if err != nil {
		return err
	}
	p.commands.Add(1)
	p.bytes.Add(int64(h.length))
	if h.update {
		p.updates.Add(int64(n))
	} else {
		p.inserts.Add(int64(n))
	}
	if h.flags&flagMoreToCome != 0 {
		return nil // the client expects no answer
	}
	_, err = client.Write(answer(h, p.answers.Add(1), n))
	return err
}
