package link

import (
	"net"
	"sync"
	"time"
)

// pieceBytes is how much is forwarded at once.
const pieceBytes = 256 << 10

// pair is a client's connection and the one made to the server for it.
type pair struct {
	client, server net.Conn
	once           sync.Once
	ended          chan struct{}
	carried        int // from the client, since the link's mode changed; the link's lock guards it
}

// end closes both connections; what they have not delivered is lost.
func (p *pair) end() {
	p.once.Do(func() {
		close(p.ended)
		abort(p.client)
		abort(p.server)
	})
}

// abort closes a connection with a reset.
func abort(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // fails on a closed one only
	c.Close()
}

// pump forwards what comes from one connection to the other, as the link's mode says, until one of them ends. answers
// tells that it comes from the server.
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

// room waits while a client is choked, and tells how much of what it sends may be read then.
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
			return pieceBytes // reading tells
		}
	}
	return pieceBytes
}

// carry counts what came from a client.
func (l *Link) carry(p *pair, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.carried += n
}

// pass waits as long as the mode holds a piece back, and reports whether to deliver it then.
func (l *Link) pass(p *pair, answers bool) bool {
	for {
		l.mu.Lock()
		m, changed := l.mode, l.changed
		l.mu.Unlock()
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
		case m.delay > 0:
			select {
			case <-time.After(m.delay):
			case <-p.ended:
				return false
			}
		case m.delayed > 0 && answers:
			select {
			case <-time.After(m.delayed):
			case <-p.ended:
				return false
			}
		}
		return true
	}
}
