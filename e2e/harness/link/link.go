package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// mode is what happens to the bytes of every connection.
type mode struct {
	held        bool          // nothing passes, and nothing is refused
	loseAnswers bool          // what the server sends is thrown away
	delay       time.Duration // each piece waits that long
	delayed     time.Duration // each piece of an answer does
	most        int           // what a client may send on a connection. Zero means all.
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

// NewNarrow is New for a link whose clients' kernels take but a few kilobytes more than passes: held bytes wait in the
// client's process. Where the system does not allow that it is as New.
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

// Address is where clients connect, host and port.
func (l *Link) Address() string { return l.address }

// Restore lets everything pass again, and delivers the held bytes now.
func (l *Link) Restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(mode{})
	for p := range l.pairs { // a narrow link's, too
		_ = p.client.(*net.TCPConn).SetReadBuffer(pieceBytes) // fails on a closed one only
	}
	if l.listener != nil || l.closed {
		return nil
	}
	return l.listen()
}

// Delay makes each piece of up to 256 KiB wait that long, in both directions.
func (l *Link) Delay(d time.Duration) { l.change(mode{delay: d}) }

// DelayAnswers makes each piece of what the server answers wait that long, as a server does that is slow.
func (l *Link) DelayAnswers(d time.Duration) { l.change(mode{delayed: d}) }

// Hold lets nothing pass: connections stay open and new ones are accepted, as by a server that does not answer.
func (l *Link) Hold() { l.change(mode{held: true}) }

// Choke lets each connection carry so many bytes more from the client, or the piece that is being waited for, and then
// nothing is read from it: small requests come through, slowly, a large one stays half on its way.
func (l *Link) Choke(most int) { l.change(mode{most: most, delay: chokedDelay}) }

// chokedDelay is how long each piece waits on a choked link, so that a new connection is not used at once.
const chokedDelay = 20 * time.Millisecond

// LoseAnswers lets through what clients send and throws away what the server answers.
func (l *Link) LoseAnswers() { l.change(mode{loseAnswers: true}) }

func (l *Link) change(m mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(m)
}

// Cut closes all connections. Bytes on their way are lost. New ones are accepted.
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

// Close ends the link and waits until nothing of it is at work.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.refuse()
	l.mu.Unlock()
	l.working.Wait()
}

// listen begins to accept connections. The caller holds mu.
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
		abort(client) // the server is down: let the client notice at once
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

// set changes the mode and wakes whoever waits for that. The caller holds mu, as of cut and refuse.
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
