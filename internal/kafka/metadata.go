package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// Topic is what the cluster knows of a topic.
type Topic struct {
	Name string
	// ID is the topic's id: created again under the same name it has another.
	ID [16]byte
	// Partitions are in the order of their ids.
	Partitions []Partition
	// Internal is one of Kafka's own topics.
	Internal bool
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
	// Replicas are how many brokers shall have it, InSync how many do.
	Replicas, InSync int
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
	topics := make([]Topic, len(names))
	for i, name := range names {
		topics[i] = Topic{Name: name, Err: CodeError(protocol.Metadata, wholeTopic(name), int16(kafkago.UnknownTopicOrPartition))}
		if j := slices.IndexFunc(answer.topics, func(t Topic) bool { return t.Name == name }); j >= 0 {
			topics[i] = answer.topics[j]
		}
	}
	return topics, nil
}

// AllTopics asks the cluster about all topics that this user may see.
func (c *Client) AllTopics(ctx context.Context) ([]Topic, error) {
	answer, err := own[metadataAnswer](ctx, c, record.Partition{}, 0, requestMetadata(wire.AppendCompactLen(nil, -1)))
	return answer.topics, err
}

// Missing lists those of the topics that do not exist. One whose leader is missing exists.
func (c *Client) Missing(ctx context.Context, names ...string) (missing []string, err error) {
	topics, err := Answer(ctx, func() ([]Topic, error) { return c.Topics(ctx, names...) })
	if err != nil {
		return nil, fmt.Errorf("looking at the topics %s: %w", strings.Join(names, ", "), err)
	}
	for _, t := range topics {
		switch Classify(t.Err) {
		case None, Retry:
		case LookAtMetadata:
			missing = append(missing, t.Name)
		default:
			return nil, fmt.Errorf("looking at topic %q: %w", t.Name, t.Err)
		}
	}
	return missing, nil
}

func (c *Client) metadata(ctx context.Context, names []string) (metadataAnswer, error) {
	return own[metadataAnswer](ctx, c, record.Partition{}, 0, metadataRequest(names))
}

// metadataRequest is Metadata v12, whose answer has topic ids; kafka-go's own stops before them. No names ask about the cluster
// alone.
func metadataRequest(names []string) *wire.Request[metadataAnswer] {
	b := wire.AppendCompactLen(nil, len(names))
	for _, name := range names {
		b = append(b, make([]byte, 16)...) // no id: asked by name
		b = wire.AppendCompactString(b, name)
		b = append(b, 0) // tags
	}
	return requestMetadata(b)
}

// requestMetadata is the request that asks about encoded topics.
func requestMetadata(topics []byte) *wire.Request[metadataAnswer] {
	const createTopics, rights, tags = 0, 1, 0
	return &wire.Request[metadataAnswer]{API: protocol.Metadata, Body: append(topics, createTopics, rights, tags), Read: readMetadata}
}

// metadataAnswer is what of the answer is of use here; brokers' addresses are the transport's affair.
type metadataAnswer struct {
	clusterID string
	topics    []Topic
}

func readMetadata(r *wire.Reader) (m metadataAnswer) {
	r.Int32() // throttle time
	for range r.Times(r.CompactLen()) {
		r.Int32()        // node id
		r.CompactBytes() // host
		r.Int32()        // port
		r.CompactBytes() // rack
		r.Tags()
	}
	m.clusterID = r.CompactString()
	r.Int32() // controller
	for range r.Times(r.CompactLen()) {
		m.topics = append(m.topics, readTopic(r))
	}
	r.Tags()
	return m
}

func readTopic(r *wire.Reader) Topic {
	code := r.Int16()
	topic := Topic{Name: r.CompactString(), ID: r.UUID()}
	topic.Err = CodeError(protocol.Metadata, wholeTopic(topic.Name), code)
	internal := r.Take(1)
	topic.Internal = len(internal) == 1 && internal[0] != 0
	for range r.Times(r.CompactLen()) {
		topic.Partitions = append(topic.Partitions, readPartition(r, topic.Name))
	}
	topic.Rights = Rights(r.Int32())
	r.Tags()
	slices.SortFunc(topic.Partitions, func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
	return topic
}

func readPartition(r *wire.Reader, topic string) Partition {
	code := r.Int16()
	p := Partition{ID: r.Int32(), Leader: r.Int32()}
	p.Err = CodeError(protocol.Metadata, record.Partition{Topic: topic, Number: p.ID}, code)
	r.Int32() // leader epoch
	p.Replicas, p.InSync = readReplicas(r), readReplicas(r)
	readReplicas(r) // those that are offline
	r.Tags()
	return p
}

// readReplicas is how many ids of brokers are listed.
func readReplicas(r *wire.Reader) int {
	n := max(0, r.CompactLen())
	r.Take(4 * n)
	return n
}
