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
	free     time.Time // when the server of Pace.Write is done with what it has
	commands int
	writes   int
}

// Pace is how slow the server is to answer a command that writes buckets.
type Pace struct {
	// Answer is how long each answer takes, however many are waited for.
	Answer time.Duration
	// Write is how long each write takes. Only one is worked on at a time, so that commands wait for each other.
	Write time.Duration
}

// New listens for connections to the server that a URI names, which is as quick as it is at first. The caller closes it.
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

// URI is the server's, with the proxy's address.
func (l *Late) URI() string { return l.uri }

// Slow makes it as slow as that for what comes from now on.
func (l *Late) Slow(p Pace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace, l.free = p, time.Time{}
}

// Slowed counts the commands so far whose answers were to come late, and the writes in them.
func (l *Late) Slowed() (commands, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commands, l.writes
}

// due is when a message may be answered that comes now.
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
