package refuser

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"sync"
	"time"

	"waterwheel/e2e/harness/wire"
)

// Refuser forwards the connections made to its URI to a server. Its methods may be called by several goroutines.
type Refuser struct {
	target   string
	uri      string
	listener net.Listener
	working  sync.WaitGroup

	mu      sync.Mutex
	rule    Rule
	refused map[int32]int
	open    map[net.Conn]struct{}
	closed  bool
}

// New listens for connections to the server that a URI names. The caller closes the refuser.
func New(uri string) (*Refuser, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	r := &Refuser{target: u.Host, refused: map[int32]int{}, open: map[net.Conn]struct{}{}}
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listening for connections to %s: %w", r.target, err)
	}
	u.Host = r.listener.Addr().String()
	query := u.Query()
	query.Set("directConnection", "true") // the server would name its own address
	u.RawQuery = query.Encode()
	if u.Path == "" {
		u.Path = "/"
	}
	r.uri = u.String()
	r.working.Go(r.accept)
	return r, nil
}

// URI is the server's, with the refuser's address.
func (r *Refuser) URI() string { return r.uri }

// Obey makes it refuse by another rule from now on; nil: nothing is refused.
func (r *Refuser) Obey(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rule = rule
}

// Refused counts the refusals so far, by code.
func (r *Refuser) Refused() map[int32]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.refused)
}

// Close ends all connections and waits until nothing is at work.
func (r *Refuser) Close() {
	r.mu.Lock()
	r.closed = true
	r.listener.Close()
	for c := range r.open {
		c.Close()
	}
	r.mu.Unlock()
	r.working.Wait()
}

func (r *Refuser) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.working.Go(func() { r.serve(client) })
	}
}

// serve forwards one connection until either side ends it.
func (r *Refuser) serve(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", r.target, 5*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	if !r.keep(client, server) {
		return
	}
	c := &connection{refuser: r, client: client, server: server, waiting: map[uint32]*sifted{}}
	var both sync.WaitGroup
	both.Go(c.answers)
	both.Go(c.requests)
	both.Wait()
	r.mu.Lock()
	delete(r.open, client)
	delete(r.open, server)
	r.mu.Unlock()
}

// keep notes connections to be closed at the end; false: the end has come.
func (r *Refuser) keep(connections ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range connections {
		r.open[c] = struct{}{}
	}
	return !r.closed
}

// decide sifts a command by the rule of now.
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
