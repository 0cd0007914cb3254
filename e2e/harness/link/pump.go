package link

import (
	"net"
	"sync"
	"time"
)

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
		abort(p.client)
		abort(p.server)
	})
}

// abort closes a connection with a reset.
func abort(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // fails only on a closed connection
	c.Close()
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
