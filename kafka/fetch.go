package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// FetchRequest is a place in a partition to read from.
type FetchRequest struct {
	// Topic routes the request to the partition's leader; it must be one of Options.Topics.
	Topic string
	// TopicID says which topic of that name is meant.
	TopicID   [16]byte
	Partition int32
	// Offset is the first offset wanted. There need not be a record at it.
	Offset int64
	// MaxBytes is the most the broker shall send, when it is less than Options.FetchBytes; 0: that.
	MaxBytes int32
}

// fetch asks the partition's leader, waiting up to FetchWait when there is nothing new.
func (c *Client) fetch(ctx context.Context, request FetchRequest) (*fetchAnswer, error) {
	message := &fetchMessage{
		FetchRequest: request,
		clientID:     c.options.ClientID,
		wait:         int32(c.options.FetchWait.Milliseconds()),
		maxBytes:     c.options.FetchBytes,
		isolation:    c.options.Isolation,
	}
	if request.MaxBytes > 0 {
		message.maxBytes = min(message.maxBytes, request.MaxBytes)
	}
	answer, err := c.exchangeFetch(ctx, message)
	if err == nil && answer.code != 0 {
		err = answer.code
	}
	return answer, err
}

// maxThrottle bounds how long one answer of a broker makes a fetch wait.
const maxThrottle = 30 * time.Second

// exchangeFetch asks until the broker reads: while the quota is used up it answers with nothing, and says for how long.
func (c *Client) exchangeFetch(ctx context.Context, message *fetchMessage) (*fetchAnswer, error) {
	for {
		answer, err := roundTrip[*fetchAnswer](ctx, c, message, c.options.FetchWait)
		if err != nil || answer.throttled == 0 {
			return answer, err
		}
		select {
		case <-time.After(min(answer.throttled, maxThrottle)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fetchMessage is Fetch v13 of one partition without a fetch session. kafka-go's own ends at v11, which addresses topics
// by name and so reads on in another topic of the same name.
type fetchMessage struct {
	FetchRequest
	clientID  string
	wait      int32 // milliseconds
	maxBytes  int32
	isolation Isolation
}

var (
	_ protocol.RawExchanger  = (*fetchMessage)(nil)
	_ protocol.BrokerMessage = (*fetchMessage)(nil)
)

// ApiKey implements protocol.Message.
func (*fetchMessage) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Required implements protocol.RawExchanger.
func (*fetchMessage) Required(map[protocol.ApiKey]int16) bool { return true }

// Broker implements protocol.BrokerMessage: the partition's leader as the transport knows it.
func (m *fetchMessage) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	topic, ok := cluster.Topics[m.Topic]
	if !ok {
		return protocol.Broker{ID: -1}, protocol.NewErrNoTopic(m.Topic)
	}
	partition, ok := topic.Partitions[m.Partition]
	if !ok {
		return protocol.Broker{ID: -1}, protocol.NewErrNoPartition(m.Topic, m.Partition)
	}
	leader, ok := cluster.Brokers[partition.Leader]
	if !ok {
		return protocol.Broker{ID: -1}, protocol.NewErrNoLeader(m.Topic, m.Partition)
	}
	return leader, nil
}

// RawExchange implements protocol.RawExchanger. The answer's memory is its own: the caller may have given up and gone while
// this is still reading.
func (m *fetchMessage) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	call := call{api: protocol.Fetch, version: fetchVersion, flexible: true, clientID: m.clientID, body: m.body()}
	response, err := exchange(rw, call)
	if err != nil {
		return nil, err
	}
	return m.parse(response)
}

func (m *fetchMessage) body() []byte {
	const noTags = 0
	b := make([]byte, 0, 96)
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // replica -1: a consumer
	b = binary.BigEndian.AppendUint32(b, uint32(m.wait))
	b = binary.BigEndian.AppendUint32(b, 1) // bytes to wait for
	b = binary.BigEndian.AppendUint32(b, uint32(m.maxBytes))
	b = append(b, byte(m.isolation))
	b = binary.BigEndian.AppendUint32(b, 0)              // session
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // its epoch -1: none
	b = appendCompactLen(b, 1)
	b = append(b, m.TopicID[:]...)
	b = appendCompactLen(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Partition))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // leader epoch -1: not known
	b = binary.BigEndian.AppendUint64(b, uint64(m.Offset))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // epoch of the last record -1: not known
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64) // log start -1: for followers only
	b = binary.BigEndian.AppendUint32(b, uint32(m.maxBytes))
	b = append(b, noTags, noTags)  // partition, topic
	b = appendCompactLen(b, 0)     // topics to forget
	b = appendCompactString(b, "") // rack
	return append(b, noTags)
}
