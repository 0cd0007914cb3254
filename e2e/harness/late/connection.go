package late

import (
	"net"
	"sync"
	"time"

	"waterwheel/e2e/harness/wire"
)

// connection is a client's connection and the connection to the server that belongs to it.
type connection struct {
	late           *Late
	client, server net.Conn
	ended          chan struct{} // closed when the client has disconnected

	mu  sync.Mutex
	due map[uint32]time.Time // earliest time of the answer, by request id
}

// requests forwards messages of the client. When the client disconnects, no answer is needed any more.
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

// answers forwards each answer of the server when it is due.
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
