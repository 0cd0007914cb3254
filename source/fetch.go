package source

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"sync"
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
}

// Fetch reads from the partition's leader, waiting up to FetchWait when there is nothing new. The batch is the caller's
// until its Release. Fetches of different partitions may overlap; those of one partition are best made one after
// another. Every error is an *Error: Classify it.
func (c *Client) Fetch(ctx context.Context, request FetchRequest) (*Batch, error) {
	batch, err := c.fetch(ctx, request)
	if err != nil {
		if ctx.Err() == nil {
			c.metrics.count(err)
		}
		return nil, unanswered(protocol.Fetch, request.Topic, request.Partition, err)
	}
	return batch, nil
}

func (c *Client) fetch(ctx context.Context, request FetchRequest) (*Batch, error) {
	message := &fetchMessage{
		FetchRequest: request,
		clientID:     c.options.ClientID,
		wait:         int32(c.options.FetchWait.Milliseconds()),
		maxBytes:     c.options.FetchBytes,
		isolation:    c.options.Isolation,
		batches:      &c.batches,
	}
	answer, err := c.exchangeFetch(ctx, message)
	if err != nil {
		return nil, err
	}
	batch := answer.batch
	if answer.code != 0 {
		batch.Release()
		return nil, answer.code
	}
	codecs := c.codecs.Get().(*codecs)
	defer c.codecs.Put(codecs)
	d := decoder{
		batch:     batch,
		aborted:   newAbortedTransactions(answer.aborted),
		codecs:    codecs,
		fullBytes: fullRatio * int(c.options.FetchBytes),
	}
	err = d.decode(answer.records)
	if err != nil && batch.Next == request.Offset { // else the records before the bad batch come first
		batch.Release()
		return nil, err
	}
	return batch, nil
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
		answer.batch.Release()
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
	batches   *sync.Pool
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

// RawExchange implements protocol.RawExchanger. The batch is taken here and not by the caller, who may have given up
// and gone while this is still reading.
func (m *fetchMessage) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	batch := m.batches.Get().(*Batch)
	batch.home = m.batches
	call := call{api: protocol.Fetch, version: fetchVersion, flexible: true, clientID: m.clientID, body: m.body()}
	var err error
	if batch.response, err = exchange(rw, call, batch.response); err != nil {
		batch.Release()
		return nil, err
	}
	answer, err := m.parse(batch.response)
	if err != nil {
		batch.Release()
		return nil, err
	}
	batch.Next = m.Offset
	batch.HighWatermark, batch.LastStable, batch.LogStart = answer.highWatermark, answer.lastStable, answer.logStart
	answer.batch = batch
	return answer, nil
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
