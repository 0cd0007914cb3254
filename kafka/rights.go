package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Operation is what an ACL of Kafka allows, by its number in the protocol.
type Operation int

// The operations that matter here.
const (
	Read     Operation = 3
	Write    Operation = 4
	describe Operation = 8
)

// Rights are the operations that a user may do on a topic or a group, as a broker tells them.
type Rights int32

// Allow says whether the operation is allowed. A broker that tells nothing is taken to allow all: who may be told of a
// resource at all may describe it.
func (r Rights) Allow(o Operation) bool {
	untold := r < 0 || r&(1<<describe) == 0
	return untold || r&(1<<o) != 0
}

// TryCreate has a broker look whether a topic could be created, and creates nothing. 0 partitions or replicas mean the
// broker's defaults.
func (c *Client) TryCreate(ctx context.Context, topic string, partitions, replicas int) error {
	request := &tryCreate{clientID: c.options.ClientID, topic: topic, partitions: partitions, replicas: replicas}
	answer, err := roundTrip[*codeAnswer](ctx, c, request, 0)
	if err != nil {
		return unanswered(protocol.CreateTopics, topic, -1, err)
	}
	return answered(protocol.CreateTopics, topic, -1, answer.code)
}

// tryCreate is CreateTopics v6 that validates only. kafka-go, after its own, waits for the topic to appear.
type tryCreate struct {
	clientID, topic      string
	partitions, replicas int
}

const (
	createTopicsVersion = 6
	createTimeout       = 4_000 // milliseconds, less than answerTimeout
)

var (
	_ protocol.RawExchanger  = (*tryCreate)(nil)
	_ protocol.BrokerMessage = (*tryCreate)(nil)
)

// ApiKey implements protocol.Message.
func (*tryCreate) ApiKey() protocol.ApiKey { return protocol.CreateTopics }

// Required implements protocol.RawExchanger.
func (*tryCreate) Required(map[protocol.ApiKey]int16) bool { return true }

// Broker implements protocol.BrokerMessage: the controller makes topics.
func (*tryCreate) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	return cluster.Brokers[cluster.Controller], nil
}

// RawExchange implements protocol.RawExchanger.
func (m *tryCreate) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	answer, err := exchange(rw, call{
		api: protocol.CreateTopics, version: createTopicsVersion, flexible: true, clientID: m.clientID, body: m.body(),
	})
	if err != nil {
		return nil, err
	}
	r := reader{rest: answer}
	r.tags()  // of the header
	r.int32() // throttle time
	var code int16
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		r.compactBytes() // the topic
		code = r.int16()
		r.compactBytes() // a message, which says what the code says
		return &codeAnswer{api: protocol.CreateTopics, code: code}, r.err
	}
	return nil, fmt.Errorf("reading CreateTopics' answer: %w", errNotAnswered)
}

func (m *tryCreate) body() []byte {
	byDefault := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	b := appendCompactString(appendCompactLen(nil, 1), m.topic)
	b = binary.BigEndian.AppendUint32(b, uint32(byDefault(m.partitions)))
	b = binary.BigEndian.AppendUint16(b, uint16(byDefault(m.replicas)))
	b = append(b, 1, 1, 0) // no assignments, no configuration, no tags
	b = binary.BigEndian.AppendUint32(b, createTimeout)
	const validateOnly, tags = 1, 0
	return append(b, validateOnly, tags)
}

// GroupRights are what this user may do with a group.
func (c *Client) GroupRights(ctx context.Context, group string) (Rights, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	g, err := describeGroup(ctx, c.transport, c.address, group)
	if errors.Is(err, kafkago.GroupIdNotFound) {
		err = nil
	}
	return Rights(g.AuthorizedOperations), err
}
