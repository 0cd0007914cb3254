package late

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"waterwheel/e2e/harness/proxy"
	"waterwheel/e2e/harness/wire"
)

// Late forwards the connections made to its URI to a server. Its methods may be called by several goroutines.
type Late struct {
	*proxy.Proxy
	uri string

	mu       sync.Mutex
	pace     Pace
	free     time.Time // when the server has done all writes so far, at the pace of Pace.Write
	commands int
	writes   int
}

// Pace is how slowly the server answers a command that writes buckets.
type Pace struct {
	// Answer is how long each answer takes, no matter how many are due.
	Answer time.Duration
	// Write is how long each write takes. The server works on one write at a time, so commands wait for each other.
	Write time.Duration
}

// New listens for connections to the server at uri. It delays nothing until Slow is called. The caller closes it.
func New(uri string) (*Late, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("reading the database's URI: %w", err)
	}
	l := &Late{}
	if l.Proxy, err = proxy.New(u.Host, l.serve); err != nil {
		return nil, err
	}
	l.uri = l.Through(u)
	return l, nil
}

// URI returns the server's URI with the address of the proxy.
func (l *Late) URI() string { return l.uri }

// Slow sets the pace for commands from now on.
func (l *Late) Slow(p Pace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace, l.free = p, time.Time{}
}

// Slowed counts the commands so far whose answers are delayed, and the writes in them.
func (l *Late) Slowed() (commands, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commands, l.writes
}

// due returns the time from which on a message that arrives now may be answered.
func (l *Late) due(m wire.Message) time.Time {
	now := time.Now()
	c, ok := wire.Parse(m)
	if !ok {
		return now
	}
	if _, collection, ok := c.Write(); !ok || !strings.HasSuffix(collection, ".buckets") {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pace == (Pace{}) {
		return now
	}
	l.commands++
	l.writes += len(c.Documents)
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(len(c.Documents)) * l.pace.Write)
	return l.free.Add(l.pace.Answer)
}

// serve forwards one connection until either side ends it.
func (l *Late) serve(client, server net.Conn) {
	c := &connection{late: l, client: client, server: server, due: map[uint32]time.Time{}, ended: make(chan struct{})}
	proxy.Both(c.answers, c.requests)
}
