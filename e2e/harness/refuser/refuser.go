package refuser

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"sync"

	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/harness/wire"
)

// Refuser forwards the connections made to its URI to a server. Its methods may be called by several goroutines.
type Refuser struct {
	*proxy.Proxy
	uri string

	mu      sync.Mutex
	rule    Rule
	refused map[int32]int
}

// New listens for connections to the server at uri. The caller closes the refuser.
func New(uri string) (*Refuser, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	r := &Refuser{refused: map[int32]int{}}
	if r.Proxy, err = proxy.New(u.Host, r.serve); err != nil {
		return nil, err
	}
	r.uri = r.Through(u)
	return r, nil
}

// URI returns the server's URI with the refuser's address.
func (r *Refuser) URI() string { return r.uri }

// Obey sets the rule from now on. Nil refuses nothing.
func (r *Refuser) Obey(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rule = rule
}

// Refused returns the number of refusals so far, by error code.
func (r *Refuser) Refused() map[int32]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.refused)
}

// serve forwards one connection until either side ends it.
func (r *Refuser) serve(client, server net.Conn) {
	c := &connection{refuser: r, client: client, server: server, waiting: map[uint32]*sifted{}}
	proxy.Both(c.answers, c.requests)
}

// decide applies the present rule to a command, and counts its refusals.
func (r *Refuser) decide(c wire.Command) *sifted {
	r.mu.Lock()
	rule := r.rule
	r.mu.Unlock()
	s := sift(c, rule)
	if s != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, code := range s.codes {
			r.refused[code]++
		}
	}
	return s
}
