package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// Proxy accepts connections at its address, opens a connection to the server for each, and closes all of them together. Its
// methods may be called by several goroutines.
type Proxy struct {
	address, target string
	uri             string // of a MongoDB, through the proxy
	listening       net.ListenConfig
	serve           func(client, server net.Conn)
	working         sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	open     map[net.Conn]struct{}
	closed   bool
}

// anyPort lets the system choose a free port.
const anyPort = "127.0.0.1:0"

// New listens on a free port for connections to the server at target. For each connection it calls serve, which forwards bytes
// until either side ends. Then New's goroutines close both connections. The caller closes the proxy.
func New(target string, serve func(client, server net.Conn)) (*Proxy, error) {
	p := newProxy(anyPort, target, serve)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p, p.listen()
}

func newProxy(address, target string, serve func(client, server net.Conn)) *Proxy {
	return &Proxy{address: address, target: target, serve: serve, open: map[net.Conn]struct{}{}}
}

// Address returns the host and port to which clients connect.
func (p *Proxy) Address() string { return p.address }

// Through returns the URI of a MongoDB with the address of the proxy. The driver must not look for the members of the replica set,
// because it would connect to their own addresses. It must not compress messages, because proxies read them.
func (p *Proxy) Through(of *url.URL) string {
	before := *of
	before.Host = p.address
	query := before.Query()
	for _, name := range []string{"replicaSet", "compressors"} {
		query.Del(name)
	}
	query.Set("directConnection", "true")
	before.RawQuery = query.Encode()
	if before.Path == "" {
		before.Path = "/"
	}
	return before.String()
}

// listen starts to accept connections. The caller of listen, cut and refuse holds mu.
func (p *Proxy) listen() error {
	listener, err := p.listening.Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return fmt.Errorf("listening for connections to %s: %w", p.target, err)
	}
	p.listener, p.address = listener, listener.Addr().String()
	p.working.Go(func() { p.accept(listener) })
	return nil
}

// cut closes all connections.
func (p *Proxy) cut() {
	for c := range p.open {
		Abort(c)
	}
}

// refuse closes all connections, and refuses new ones.
func (p *Proxy) refuse() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.cut()
}

// Close closes all connections, and waits until the proxy's goroutines have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.refuse()
	p.mu.Unlock()
	p.working.Wait()
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.working.Go(func() { p.connect(client) })
		}
	}
}

func (p *Proxy) connect(client net.Conn) {
	defer Abort(client)
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return // the server is down, and the client must notice at once
	}
	defer Abort(server)
	if p.keep(client, server) {
		p.serve(client, server)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// keep records connections that cut must close. It returns false if connections are refused by now.
func (p *Proxy) keep(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		p.open[c] = struct{}{}
	}
	return p.listener != nil
}

// Both runs the two directions of a connection until both have ended.
func Both(one, other func()) {
	var both sync.WaitGroup
	both.Go(one)
	both.Go(other)
	both.Wait()
}

// Abort closes a connection with a reset.
func Abort(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // fails only on a closed connection
	c.Close()
}

// Decision says what becomes of a client's request.
type Decision struct {
	// Forward goes to the server, and Reply to the client. Nil means that nothing does.
	Forward, Reply Message
	// Due is the earliest time of the server's answer.
	Due time.Time
	// Change returns the answer for the client in place of the server's. Nil means that it is the server's.
	Change func(answer Message) (Message, error)
}

// NewMessages listens for connections to the MongoDB at a URI, and decides about each request. Calls of decide may overlap. The
// caller closes the proxy.
func NewMessages(uri string, decide func(request Message) Decision) (*Proxy, error) {
	server, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	p, err := New(server.Host, func(client, server net.Conn) {
		m := &messages{decide: decide, client: client, server: server, ended: make(chan struct{}), waiting: map[int32]Decision{}}
		Both(m.requests, m.answers)
	})
	if err == nil {
		p.uri = p.Through(server)
	}
	return p, err
}

// URI returns the server's URI with the address of the proxy. It is empty for a proxy that NewMessages did not make.
func (p *Proxy) URI() string { return p.uri }

// messages is a client's connection and the connection to the server that belongs to it.
type messages struct {
	decide         func(Message) Decision
	client, server net.Conn
	ended          chan struct{} // closed when the client has disconnected

	mu      sync.Mutex         // guards waiting, and writes to the client
	waiting map[int32]Decision // decisions about answers, by request id
}

// requests handles the client's requests. When the client disconnects, no answer is needed any more.
func (m *messages) requests() {
	defer m.server.Close()
	defer close(m.ended)
	for {
		request, err := Read(m.client)
		if err != nil {
			return
		}
		d := m.decide(request)
		m.mu.Lock()
		if d.Forward != nil {
			m.waiting[request.RequestID()] = d
		}
		m.mu.Unlock()
		if d.Reply != nil && !m.reply(d.Reply) {
			return
		}
		if _, err := m.server.Write(d.Forward); err != nil {
			return
		}
	}
}

// answers handles the server's answers, in their order.
func (m *messages) answers() {
	defer m.client.Close()
	for {
		answer, err := Read(m.server)
		if err != nil {
			return
		}
		m.mu.Lock()
		d := m.waiting[answer.ResponseTo()]
		delete(m.waiting, answer.ResponseTo())
		m.mu.Unlock()
		if wait := time.Until(d.Due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-m.ended:
				return
			}
		}
		if d.Change != nil {
			if answer, err = d.Change(answer); err != nil {
				return
			}
		}
		if !m.reply(answer) {
			return
		}
	}
}

func (m *messages) reply(answer Message) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.client.Write(answer)
	return err == nil
}
