// Package proxy is a proxy in front of one server. It accepts connections at its address, opens a connection to the server for
// each, and closes all of them together.
package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// Proxy accepts connections to one server.
type Proxy struct {
	target   string
	serve    func(client, server net.Conn)
	listener net.Listener
	working  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// New listens on a free port for connections to the server at target. For each connection it calls serve, which forwards bytes
// until either side ends. Then New's goroutines close both connections. The caller closes the proxy.
func New(target string, serve func(client, server net.Conn)) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for connections to %s: %w", target, err)
	}
	p := &Proxy{target: target, serve: serve, listener: listener, open: map[net.Conn]struct{}{}}
	p.working.Go(p.accept)
	return p, nil
}

// Address returns the host and port to which clients connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Through returns the URI of a MongoDB with the address of the proxy.
func (p *Proxy) Through(of *url.URL) string {
	before := *of
	before.Host = p.Address()
	query := before.Query()
	query.Set("directConnection", "true") // without it the driver would connect to the address that the server names
	before.RawQuery = query.Encode()
	if before.Path == "" {
		before.Path = "/"
	}
	return before.String()
}

// Close closes all connections, and waits until the proxy's goroutines have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.listener.Close()
	for c := range p.open {
		Abort(c)
	}
	p.mu.Unlock()
	p.working.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
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
		return
	}
	defer Abort(server)
	if !p.keep(client, server) {
		return
	}
	p.serve(client, server)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// keep records connections that Close must close. It returns false if the proxy is already closed.
func (p *Proxy) keep(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		p.open[c] = struct{}{}
	}
	return !p.closed
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
