package tap

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Tap forwards the connections made to its address to one server. Its methods may be called by several goroutines.
type Tap struct {
	target   string
	secure   *tls.Config
	listener net.Listener
	working  sync.WaitGroup

	mu     sync.Mutex
	writes []*Write
	part   map[*Write]struct{} // not whole yet, or never
	open   map[net.Conn]struct{}
	closed bool
}

// New listens on a free port for connections to the server at target; with a configuration, for those of TLS, which ends
// here. The caller closes the tap.
func New(target string, secure *tls.Config) (*Tap, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for connections to %s: %w", target, err)
	}
	t := &Tap{target: target, secure: secure, listener: listener, part: map[*Write]struct{}{}, open: map[net.Conn]struct{}{}}
	t.working.Go(t.accept)
	return t, nil
}

// Address is where clients connect, host and port.
func (t *Tap) Address() string { return t.listener.Addr().String() }

// Writes are the writes of buckets so far, in the order of their first bytes, and what is not whole or never was.
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

// Close ends all connections and waits until nothing is at work.
func (t *Tap) Close() {
	t.mu.Lock()
	t.closed = true
	t.listener.Close()
	for c := range t.open {
		abort(c)
	}
	t.mu.Unlock()
	t.working.Wait()
}

func (t *Tap) accept() {
	for {
		client, err := t.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			t.working.Go(func() { t.serve(client) })
		}
	}
}

// serve forwards one connection until either side ends it.
func (t *Tap) serve(client net.Conn) {
	defer abort(client)
	server, err := net.DialTimeout("tcp", t.target, 5*time.Second)
	if err != nil {
		return
	}
	defer abort(server)
	if !t.keep(client, server) {
		return
	}
	c := &connection{tap: t, client: client, server: server, plain: client, waiting: map[uint32]*Write{}}
	if t.secure != nil {
		c.plain = tls.Server(client, t.secure)
	}
	var both sync.WaitGroup
	both.Go(c.answers)
	both.Go(c.requests)
	both.Wait()
	t.mu.Lock()
	delete(t.open, client)
	delete(t.open, server)
	t.mu.Unlock()
}

// keep notes connections to be closed at the end; false: the end has come.
func (t *Tap) keep(connections ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range connections {
		t.open[c] = struct{}{}
	}
	return !t.closed
}

// abort closes a connection with a reset.
func abort(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // fails on a closed one only
	c.Close()
}
