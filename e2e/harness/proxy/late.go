package proxy

import (
	"fmt"
	"net/url"
	"sync"
	"time"
)

// Late imitates a MongoDB that writes buckets slowly. It delays the answers to inserts and updates of buckets, and forwards all
// others at once. To the client the server looks alive but busy. Its methods may be called by several goroutines.
type Late struct {
	*Proxy
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

// NewLate listens for connections to the server at uri. It delays nothing until Slow is called. The caller closes it.
func NewLate(uri string) (*Late, error) {
	l := &Late{}
	var err error
	l.Proxy, l.uri, err = before(uri, l.decide)
	return l, err
}

// before returns a proxy before the MongoDB at uri, and the URI through it.
func before(uri string, decide func(Message) Decision) (*Proxy, string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, "", fmt.Errorf("reading the database's URI: %w", err)
	}
	p, err := NewMessages(u.Host, decide)
	if err != nil {
		return nil, "", err
	}
	return p, p.Through(u), nil
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

// decide forwards a message, whose answer is due at the pace of now.
func (l *Late) decide(m Message) Decision {
	c, _, ok := ParseBucketWrite(m)
	if !ok {
		return Decision{Forward: m}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pace == (Pace{}) {
		return Decision{Forward: m}
	}
	l.commands++
	l.writes += len(c.Documents)
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(len(c.Documents)) * l.pace.Write)
	return Decision{Forward: m, Due: l.free.Add(l.pace.Answer)}
}
