package kafka

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Topic is what the cluster knows of a topic.
type Topic struct {
	Name string
	// ID is the topic's id: created again under the same name it has another.
	ID [16]byte
	// Partitions are in the order of their ids.
	Partitions []Partition
	// Rights are what this user may do with it.
	Rights Rights
	// Err is why the rest is empty: no such topic, not authorised, not a name. Classify it.
	Err error
}

// Partition is what the cluster knows of a partition.
type Partition struct {
	ID int32
	// Leader is the broker that serves it, -1 when there is none at the moment.
	Leader int32
	// LeaderEpoch counts its leaders.
	LeaderEpoch int32
	// Err is the broker's remark on it, such as that its leader is not there.
	Err error
}

// Topics asks the cluster about topics by name and answers in the same order. A topic that is not there has its Err set;
// none is created by asking.
func (c *Client) Topics(ctx context.Context, names ...string) ([]Topic, error) {
	answer, err := c.metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]Topic, len(answer.topics))
	for _, topic := range answer.topics {
		byName[topic.Name] = topic
	}
	topics := make([]Topic, len(names))
	for i, name := range names {
		topic, ok := byName[name]
		if !ok {
			topic = Topic{Name: name, Err: answered(protocol.Metadata, name, -1, int16(kafkago.UnknownTopicOrPartition))}
		}
		topics[i] = topic
	}
	return topics, nil
}

func (c *Client) metadata(ctx context.Context, names []string) (*metadataAnswer, error) {
	request := &metadataRequest{clientID: c.options.ClientID, topics: names}
	answer, err := roundTrip[*metadataAnswer](ctx, c, request, 0)
	if err != nil {
		return nil, unanswered(protocol.Metadata, "", -1, err)
	}
	return answer, nil
}

// metadataRequest is Metadata v12, whose answer has topic ids and leader epochs; kafka-go's own stops before them.
type metadataRequest struct {
	clientID string
	topics   []string // none asks about the cluster alone
}

var _ protocol.RawExchanger = (*metadataRequest)(nil)

// ApiKey implements protocol.Message.
func (*metadataRequest) ApiKey() protocol.ApiKey { return protocol.Metadata }

// Required implements protocol.RawExchanger.
func (*metadataRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange implements protocol.RawExchanger.
func (m *metadataRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	call := call{api: protocol.Metadata, version: metadataVersion, flexible: true, clientID: m.clientID, body: m.body()}
	answer, err := exchange(rw, call)
	if err != nil {
		return nil, err
	}
	return parseMetadata(answer)
}

func (m *metadataRequest) body() []byte {
	b := appendCompactLen(nil, len(m.topics))
	for _, name := range m.topics {
		b = append(b, make([]byte, 16)...) // no id: asked by name
		b = appendCompactString(b, name)
		b = append(b, 0) // tags
	}
	const createTopics, rights, tags = 0, 1, 0
	return append(b, createTopics, rights, tags)
}

// metadataAnswer is what of the answer is of use here; brokers' addresses are the transport's affair.
type metadataAnswer struct {
	clusterID string
	topics    []Topic
}

// ApiKey implements protocol.Message.
func (*metadataAnswer) ApiKey() protocol.ApiKey { return protocol.Metadata }

func parseMetadata(answer []byte) (*metadataAnswer, error) {
	r := reader{rest: answer}
	r.tags()  // of the header
	r.int32() // throttle time
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		r.int32()        // node id
		r.compactBytes() // host
		r.int32()        // port
		r.compactBytes() // rack
		r.tags()
	}
	m := &metadataAnswer{clusterID: r.compactString()}
	r.int32() // controller
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		m.topics = append(m.topics, parseTopic(&r))
	}
	r.tags()
	if r.err != nil {
		return nil, fmt.Errorf("reading metadata: %w", r.err)
	}
	return m, nil
}

func parseTopic(r *reader) Topic {
	code := r.int16()
	topic := Topic{Name: r.compactString(), ID: r.uuid()}
	topic.Err = answered(protocol.Metadata, topic.Name, -1, code)
	r.boolean() // internal
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		topic.Partitions = append(topic.Partitions, parsePartition(r, topic.Name))
	}
	topic.Rights = Rights(r.int32())
	r.tags()
	slices.SortFunc(topic.Partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
	return topic
}

func parsePartition(r *reader, topic string) Partition {
	code := r.int16()
	partition := Partition{ID: r.int32(), Leader: r.int32(), LeaderEpoch: r.int32()}
	partition.Err = answered(protocol.Metadata, topic, partition.ID, code)
	for range 3 { // replicas, in-sync replicas, offline replicas
		for n := r.compactLen(); n > 0 && r.err == nil; n-- {
			r.int32()
		}
	}
	r.tags()
	return partition
}
