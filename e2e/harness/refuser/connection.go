package refuser

import (
	"net"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/harness/wire"
)

// connection is a client's connection and the connection to the server that belongs to it.
type connection struct {
	refuser        *Refuser
	client, server net.Conn

	mu      sync.Mutex         // guards waiting, and writes to the client
	waiting map[uint32]*sifted // by request id, the commands of which the server got only a part
}

// requests forwards messages of the client, without the refused writes.
func (c *connection) requests() {
	defer c.server.Close()
	for {
		m, err := wire.Read(c.client)
		if err != nil {
			return
		}
		if m, err = c.request(m); err != nil {
			return
		}
		if m == nil {
			continue
		}
		if _, err := c.server.Write(m); err != nil {
			return
		}
	}
}

// request removes the refused writes from a message. It returns nil if no write is left, and answers the client itself.
func (c *connection) request(m wire.Message) (wire.Message, error) {
	asked, ok := wire.Parse(m)
	if !ok {
		return m, nil
	}
	s := c.refuser.decide(asked)
	if s == nil {
		return m, nil
	}
	if len(s.kept) == 0 {
		reply, err := wire.Answer(m, s.alone())
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		_, err = c.client.Write(reply)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[m.RequestID()] = s
	return s.without(asked).Build(m), nil
}

// answers forwards the server's answers, and adds the refusals.
func (c *connection) answers() {
	defer c.client.Close()
	for {
		m, err := wire.Read(c.server)
		if err != nil {
			return
		}
		if err := c.answer(m); err != nil {
			return
		}
	}
}

func (c *connection) answer(m wire.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.waiting[m.ResponseTo()]; s != nil {
		delete(c.waiting, m.ResponseTo())
		if reply, ok := wire.Parse(m); ok {
			joined, err := s.join(reply.Body)
			if err != nil {
				return err
			}
			if reply.Body, err = bson.Marshal(joined); err != nil {
				return err
			}
			m = reply.Build(m)
		}
	}
	_, err := c.client.Write(m)
	return err
}
