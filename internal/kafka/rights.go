package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
)

// Operation is what an ACL of Kafka allows, by its number in the protocol.
type Operation int

// The operations that this program needs.
const (
	Read     Operation = 3
	Write    Operation = 4
	describe Operation = 8
)

// Rights is the set of operations that a user may do on a topic or a group, as a broker tells it.
type Rights int32

// Allow reports whether the operation is allowed. If the rights lack DESCRIBE, the broker told nothing, and Allow returns true. A
// user who may see the rights of a resource may always describe it.
func (r Rights) Allow(o Operation) bool {
	untold := r < 0 || r&(1<<describe) == 0
	return untold || r&(1<<o) != 0
}

// createTimeout is less than AnswerTimeout.
const createTimeout = 4 * time.Second

// byDefault, as a number of partitions or replicas, means the broker's default.
const byDefault = -1

// TryCreate asks a broker whether a topic could be created, and creates nothing. Zero partitions or replicas mean the broker's
// defaults. It sends its own CreateTopics v6, because kafka-go waits for the topic to appear.
func (c *Client) TryCreate(ctx context.Context, topic string, partitions, replicas int) error {
	b := wire.AppendCompactString(wire.AppendCompactLen(nil, 1), topic)
	b = binary.BigEndian.AppendUint32(b, uint32(cmp.Or(partitions, byDefault)))
	b = binary.BigEndian.AppendUint16(b, uint16(cmp.Or(replicas, byDefault)))
	b = append(b, 1, 1, 0) // no assignments, no configuration, no tags
	b = binary.BigEndian.AppendUint32(b, uint32(createTimeout.Milliseconds()))
	const validateOnly, tags = 1, 0
	code, err := own[int16](ctx, c, wholeTopic(topic), 0, &wire.RoutedRequest[int16]{
		Request: wire.Request[int16]{API: protocol.CreateTopics, Body: append(b, validateOnly, tags), Read: func(r *wire.Reader) int16 {
			r.Int32() // throttle time
			if r.CompactLen() != 1 {
				r.Fail(errOtherPartition)
			}
			r.CompactBytes() // the topic
			return r.Int16()
		}},
		Route: func(cluster protocol.Cluster) (protocol.Broker, error) { // the controller makes topics
			return cluster.Brokers[cluster.Controller], nil
		},
	})
	if err != nil {
		return err
	}
	return CodeError(protocol.CreateTopics, wholeTopic(topic), code)
}
