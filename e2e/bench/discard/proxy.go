package discard

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"

	"waterwheel/e2e/harness/proxy"
)

// readBytes is how much of a connection is read at once: a bulk is of megabytes, and each call of the system costs.
const readBytes = 256 << 10

// Counts are what was answered here.
type Counts struct {
	Commands int64 `json:"commands"`
	// Inserts and Updates are documents: buckets that were opened, and writes that would have grown one.
	Inserts int64 `json:"inserts"`
	Updates int64 `json:"updates"`
	// Bytes of these commands' messages.
	Bytes int64 `json:"bytes"`
}

// Proxy forwards everything between clients and one server but the writes of buckets.
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

// Counts are those until now.
func (p *Proxy) Counts() Counts {
	return Counts{
		Commands: p.commands.Load(), Inserts: p.inserts.Load(), Updates: p.updates.Load(), Bytes: p.bytes.Load(),
	}
}

// serve runs one connection. Drivers wait for the answer to one request before they send the next on a connection, so an
// answer of ours never comes in the middle of one of the server's.
func (p *Proxy) serve(client, server net.Conn) {
	proxy.Both(func() {
		from := bufio.NewReaderSize(client, readBytes)
		for p.request(from, client, server) == nil {
		}
		proxy.Abort(server)
	}, func() {
		_, _ = io.Copy(client, server) // ends with either
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
		return nil // nobody waits for an answer
	}
	_, err = client.Write(answer(h, p.answers.Add(1), n))
	return err
}
