package proxy

import (
	"net"
	"sync"
	"time"
)

// mode is how the link treats the bytes of every connection.
type mode struct {
	held           bool          // nothing passes, and nothing is refused
	loseAnswers    bool          // the server's answers are thrown away
	delay, answers time.Duration // delays of each piece from the client, and of each piece of an answer
	most           int           // number of bytes a client may send on a connection. Zero means no limit.
}

// Link is the network between a client and one server, under the control of a test. Its methods may be called by several
// goroutines.
type Link struct {
	*Proxy

	// The lock of the proxy guards these.
	mode    mode
	changed chan struct{} // closed when mode changes
	pairs   map[*pair]struct{}
}

// NewLink listens at an address for connections to the server at target. The caller closes the link.
func NewLink(address, target string) (*Link, error) {
	return NewLinkOf(net.ListenConfig{}, address, target)
}

// NewLinkOf is like NewLink, with options for the sockets of the link's clients.
func NewLinkOf(listening net.ListenConfig, address, target string) (*Link, error) {
	l := &Link{changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	l.Proxy = newProxy(address, target, l.serve)
	l.listening = listening
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, l.listen()
}

// Restore makes the link pass everything again, and delivers the bytes it holds at once.
func (l *Link) Restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(mode{})
	for p := range l.pairs { // also resets receive buffers that NewLinkOf made small
		_ = p.client.(*net.TCPConn).SetReadBuffer(pieceBytes) // fails only on a closed connection
	}
	if l.listener != nil || l.closed {
		return nil
	}
	return l.listen()
}

// Delay delays each piece of up to 256 KiB by d, in both directions.
func (l *Link) Delay(d time.Duration) { l.change(mode{delay: d, answers: d}) }

// DelayAnswers delays each piece of the server's answers by d, like a slow server.
func (l *Link) DelayAnswers(d time.Duration) { l.change(mode{answers: d}) }

// Hold stops all bytes. Connections stay open and new ones are accepted, as by a server that does not answer.
func (l *Link) Hold() { l.change(mode{held: true}) }

// Choke limits each connection to most further bytes from the client. A read in progress may still return a whole piece. Then the
// link reads nothing more from this connection. Small requests get through slowly, but a large request stops halfway.
func (l *Link) Choke(most int) { l.change(mode{most: most, delay: chokedDelay, answers: chokedDelay}) }

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
	l.set(mode{})
}

// Refuse closes all connections and refuses new ones.
func (l *Link) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse()
	l.set(mode{})
}

// Close ends the link, and waits until its goroutines have ended.
func (l *Link) Close() {
	l.change(mode{}) // what is held ends with its connection
	l.Proxy.Close()
}

// serve forwards one connection until either side or the link ends it.
func (l *Link) serve(client, server net.Conn) {
	p := &pair{client: client, server: server, ended: make(chan struct{})}
	l.mu.Lock()
	l.pairs[p] = struct{}{}
	l.mu.Unlock()
	Both(func() { l.pump(p, p.server, p.client, false) }, func() { l.pump(p, p.client, p.server, true) })
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, p)
}

// set changes the mode and wakes the goroutines that wait for a change. The caller holds mu.
func (l *Link) set(m mode) {
	l.mode = m
	for p := range l.pairs {
		p.carried = 0
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// pieceBytes is the largest number of bytes that are forwarded at once.
const pieceBytes = 256 << 10

// pair is a client's connection and the connection to the server that belongs to it.
type pair struct {
	client, server net.Conn
	once           sync.Once
	ended          chan struct{}
	carried        int // bytes from the client since the link's mode changed, guarded by the link's lock
}

// end closes both connections. Bytes that they have not delivered are lost.
func (p *pair) end() {
	p.once.Do(func() {
		close(p.ended)
		Abort(p.client)
		Abort(p.server)
	})
}

// pump forwards the bytes of one connection to the other as the link's mode says, until one of them ends. answers reports whether
// the bytes come from the server.
func (l *Link) pump(p *pair, to, from net.Conn, answers bool) {
	defer p.end()
	piece := make([]byte, pieceBytes)
	for {
		n, err := from.Read(piece[:l.room(p, answers)])
		if !answers {
			l.carry(p, n)
		}
		if n > 0 && l.pass(p, answers) {
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// room returns how many bytes may be read. It waits while the client of the connection is choked.
func (l *Link) room(p *pair, answers bool) int {
	for !answers {
		l.mu.Lock()
		most, changed := l.mode.most, l.changed
		left := most - p.carried
		l.mu.Unlock()
		switch {
		case most == 0:
			return pieceBytes
		case left > 0:
			return min(left, pieceBytes)
		}
		select {
		case <-changed:
		case <-p.ended:
			return pieceBytes // the read returns the error
		}
	}
	return pieceBytes
}

// carry counts bytes that came from a client.
func (l *Link) carry(p *pair, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.carried += n
}

// pass delays a piece as the mode says, and then reports whether to deliver it.
func (l *Link) pass(p *pair, answers bool) bool {
	for {
		l.mu.Lock()
		m, changed := l.mode, l.changed
		l.mu.Unlock()
		delay := m.delay
		if answers {
			delay = m.answers
		}
		switch {
		case m.held:
			select {
			case <-changed:
				continue
			case <-p.ended:
				return false
			}
		case m.loseAnswers && answers:
			return false
		case delay > 0:
			select {
			case <-time.After(delay):
			case <-p.ended:
				return false
			}
		}
		return true
	}
}
