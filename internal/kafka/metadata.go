package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// Topic is what the cluster knows of a topic.
type Topic struct {
	Name string
	// ID is the topic's id. A topic that is created again under the same name has another id.
	ID [16]byte
	// Partitions are in the order of their ids.
	Partitions []Partition
	// Internal is one of Kafka's own topics.
	Internal bool
	// Rights are what this user may do with the topic.
	Rights Rights
	// Err is why the other fields are empty, such as no such topic, not authorised or not a valid name. Classify it.
	Err error
}

// Partition is what the cluster knows of a partition.
type Partition struct {
	ID int32
	// Leader is the broker that serves the partition. It is -1 while there is none.
	Leader int32
	// Replicas is how many brokers should have the partition. InSync is how many do.
	Replicas, InSync int
	// Err is the broker's code for the partition, such as a missing leader.
	Err error
}

// Topics asks the cluster about topics by name and answers in the same order. A missing topic has its Err set. Asking creates no
// topic.
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

// Missing lists the topics that do not exist. A topic without a leader exists.
func (c *Client) Missing(ctx context.Context, names ...string) (missing []string, err error) {
	topics, err := Answer(ctx, func() ([]Topic, error) { return c.Topics(ctx, names...) })
	if err != nil {
		return nil, fmt.Errorf("reading metadata of the topics %s: %w", strings.Join(names, ", "), err)
	}
	for _, t := range topics {
		switch Classify(t.Err) {
		case None, Retry:
		case LookAtMetadata:
			missing = append(missing, t.Name)
		default:
			return nil, fmt.Errorf("reading metadata of topic %q: %w", t.Name, t.Err)
		}
	}
	return missing, nil
}

func (c *Client) metadata(ctx context.Context, names []string) (metadataAnswer, error) {
	return own[metadataAnswer](ctx, c, record.Partition{}, 0, metadataRequest(names))
}

// metadataRequest makes a Metadata v12 request, whose answer has topic ids. kafka-go's own request ends at an earlier version.
// Without names it asks about the cluster alone.
func metadataRequest(names []string) *wire.Request[metadataAnswer] {
	b := wire.AppendCompactLen(nil, len(names))
	for _, name := range names {
		b = append(b, make([]byte, 16)...) // no id, because the request is by name
		b = wire.AppendCompactString(b, name)
		b = append(b, 0) // tags
	}
	return requestMetadata(b)
}

// requestMetadata makes a request about topics that are already encoded.
func requestMetadata(topics []byte) *wire.Request[metadataAnswer] {
	const createTopics, rights, tags = 0, 1, 0
	return &wire.Request[metadataAnswer]{API: protocol.Metadata, Body: append(topics, createTopics, rights, tags), Read: readMetadata}
}

// metadataAnswer holds the fields that this package needs. The transport itself keeps the brokers' addresses.
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
	readReplicas(r) // offline replicas
	r.Tags()
	return p
}

// readReplicas reads a list of broker ids and returns its length.
func readReplicas(r *wire.Reader) int {
	n := max(0, r.CompactLen())
	r.Take(4 * n)
	return n
}

// Configuration is a topic's configuration and its least replication.
type Configuration struct {
	// Values holds the configuration by name, including the broker's defaults.
	Values map[string]string
	// Replicas and InSync are the lowest numbers among the topic's partitions.
	Replicas, InSync int
}

// Configuration asks for a topic's configuration. This needs the right DESCRIBE_CONFIGS, which reading records does not need. A
// user without it gets an error.
func (c *Client) Configuration(ctx context.Context, topic string) (answer Configuration, err error) {
	of := wholeTopic(topic)
	response, err := ask[*describeconfigs.Response](ctx, c, of, 0, &describeconfigs.Request{
		Resources: []describeconfigs.RequestResource{{ResourceType: int8(kafkago.ResourceTypeTopic), ResourceName: topic}},
	})
	if err != nil {
		return answer, err
	}
	answer.Values = map[string]string{}
	for _, resource := range response.Resources {
		if err := CodeError(protocol.DescribeConfigs, of, resource.ErrorCode); err != nil {
			return answer, err
		}
		for _, entry := range resource.ConfigEntries {
			answer.Values[entry.ConfigName] = entry.ConfigValue
		}
	}
	topics, err := c.Topics(ctx, topic)
	if err != nil {
		return answer, err
	}
	for i, p := range topics[0].Partitions {
		if i == 0 {
			answer.Replicas, answer.InSync = p.Replicas, p.InSync
		}
		answer.Replicas, answer.InSync = min(answer.Replicas, p.Replicas), min(answer.InSync, p.InSync)
	}
	return answer, nil
}

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
