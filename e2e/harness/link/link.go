package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// mode is how the link treats the bytes of every connection.
type mode struct {
	held        bool          // nothing passes, and nothing is refused
	loseAnswers bool          // the server's answers are thrown away
	delay       time.Duration // delay of each piece in both directions
	delayed     time.Duration // delay of each piece of an answer
	most        int           // number of bytes a client may send on a connection. Zero means no limit.
}

// Link forwards the connections made to its address to one server. Its methods may be called by several goroutines.
type Link struct {
	address, target string
	listening       net.ListenConfig

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	mode     mode
	changed  chan struct{} // closed when mode changes
	pairs    map[*pair]struct{}
	closed   bool
	working  sync.WaitGroup
}

// New listens at an address for connections to the server at target. The caller closes the link.
func New(address, target string) (*Link, error) {
	return newLink(&Link{address: address, target: target})
}

// NewNarrow is like New, but the kernels of the link's clients accept only a few kilobytes more than passes. Bytes that are held
// therefore wait in the client's process. On systems other than Linux it is the same as New.
func NewNarrow(address, target string) (*Link, error) {
	return newLink(&Link{address: address, target: target, listening: net.ListenConfig{Control: narrow}})
}

func newLink(l *Link) (*Link, error) {
	l.changed, l.pairs = make(chan struct{}), map[*pair]struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.listen(); err != nil {
		return nil, err
	}
	return l, nil
}

// Address returns the host and port to which clients connect.
func (l *Link) Address() string { return l.address }

// Restore makes the link pass everything again, and delivers the bytes it holds at once.
func (l *Link) Restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(mode{})
	for p := range l.pairs { // also resets the buffers of a narrow link
		_ = p.client.(*net.TCPConn).SetReadBuffer(pieceBytes) // fails only on a closed connection
	}
	if l.listener != nil || l.closed {
		return nil
	}
	return l.listen()
}

// Delay delays each piece of up to 256 KiB by d, in both directions.
func (l *Link) Delay(d time.Duration) { l.change(mode{delay: d}) }

// DelayAnswers delays each piece of the server's answers by d, like a slow server.
func (l *Link) DelayAnswers(d time.Duration) { l.change(mode{delayed: d}) }

// Hold stops all bytes. Connections stay open and new ones are accepted, as by a server that does not answer.
func (l *Link) Hold() { l.change(mode{held: true}) }

// Choke limits each connection to most further bytes from the client. A read in progress may still return a whole piece. Then the
// link reads nothing more from this connection. Small requests get through slowly, but a large request stops halfway.
func (l *Link) Choke(most int) { l.change(mode{most: most, delay: chokedDelay}) }

// chokedDelay is the delay of each piece on a choked link, so that a new connection is not usable at once.
const chokedDelay = 20 * time.Millisecond

// LoseAnswers forwards the clients' bytes, and throws away the server's answers.
func (l *Link) LoseAnswers() { l.change(mode{loseAnswers: true}) }

func (l *Link) change(m mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(m)
}

// Cut closes all connections, and accepts new ones. Bytes in flight are lost.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

// Refuse closes all connections and refuses new ones.
func (l *Link) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse()
}

// Close ends the link, and waits until its goroutines have ended.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.refuse()
	l.mu.Unlock()
	l.working.Wait()
}

// listen starts to accept connections. The caller holds mu.
func (l *Link) listen() error {
	listener, err := l.listening.Listen(context.Background(), "tcp", l.address)
	if err != nil {
		return fmt.Errorf("listening for connections to %s: %w", l.target, err)
	}
	l.listener = listener
	l.working.Go(func() { l.accept(listener) })
	return nil
}

func (l *Link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			l.working.Go(func() { l.serve(client) })
		}
	}
}

// serve forwards one connection until either side or the link ends it.
func (l *Link) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil {
		abort(client) // the server is down, and the client must notice at once
		return
	}
	p := &pair{client: client, server: server, ended: make(chan struct{})}
	l.mu.Lock()
	if l.listener == nil {
		l.mu.Unlock()
		p.end()
		return
	}
	l.pairs[p] = struct{}{}
	l.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { l.pump(p, p.server, p.client, false) })
	both.Go(func() { l.pump(p, p.client, p.server, true) })
	both.Wait()
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
}

// set changes the mode and wakes the goroutines that wait for a change. The caller of set, cut and refuse holds mu.
func (l *Link) set(m mode) {
	l.mode = m
	for p := range l.pairs {
		p.carried = 0
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Link) cut() {
	for p := range l.pairs {
		p.end()
	}
	l.set(mode{})
}

func (l *Link) refuse() {
	if l.listener != nil {
		l.listener.Close()
		l.listener = nil
	}
	l.cut()
}
