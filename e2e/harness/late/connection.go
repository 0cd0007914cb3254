package late

import (
	"net"
	"sync"
	"time"

	"waterwheel/e2e/harness/wire"
)

// connection is a client's connection and the one made to the server for it.
type connection struct {
	late           *Late
	client, server net.Conn
	ended          chan struct{} // closed when the client is gone

	mu  sync.Mutex
	due map[uint32]time.Time // by request: not to be answered before
}

// requests forwards what comes from the client. When it goes, nobody waits for an answer.
func (c *connection) requests() {
	defer c.server.Close()
	defer close(c.ended)
	for {
		m, err := wire.Read(c.client)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.due[m.RequestID()] = c.late.due(m)
		c.mu.Unlock()
		if _, err := c.server.Write(m); err != nil {
			return
		}
	}
}

// answers forwards what comes from the server, when it is due.
func (c *connection) answers() {
	defer c.client.Close()
	for {
		m, err := wire.Read(c.server)
		if err != nil {
			return
		}
		c.mu.Lock()
		due := c.due[m.ResponseTo()]
		delete(c.due, m.ResponseTo())
		c.mu.Unlock()
		select {
		case <-time.After(time.Until(due)):
		case <-c.ended:
			return
		}
		if _, err := c.client.Write(m); err != nil {
			return
		}
	}
}
