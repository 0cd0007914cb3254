package tap

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"

	"waterwheel/e2e/harness/proxy"
)

// Tap forwards the connections made to its address to one server. Its methods may be called by several goroutines.
type Tap struct {
	*proxy.Proxy
	secure *tls.Config

	mu     sync.Mutex
	writes []*Write
	part   map[*Write]struct{} // incomplete writes
}

// New listens on a free port for connections to the server at target. If secure is not nil, clients connect with TLS, which ends
// at the tap. The caller closes the tap.
func New(target string, secure *tls.Config) (_ *Tap, err error) {
	t := &Tap{secure: secure, part: map[*Write]struct{}{}}
	t.Proxy, err = proxy.New(target, t.serve)
	return t, err
}

// Writes returns the writes of buckets so far, ordered by their first bytes. It includes incomplete messages.
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

// serve forwards one connection until either side ends it.
func (t *Tap) serve(client, server net.Conn) {
	c := &connection{tap: t, client: client, server: server, plain: client, waiting: map[uint32]*Write{}}
	if t.secure != nil {
		c.plain = tls.Server(client, t.secure)
	}
	proxy.Both(c.answers, c.requests)
}
