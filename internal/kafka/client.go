package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// AnswerTimeout plus the time that a request may wait at the broker is the request's deadline. Without one, kafka-go waits for
// ever.
const AnswerTimeout = 5 * time.Second

// firstTries bounds the attempts of the first request. It may reach a broker that is starting or hanging up. When all attempts
// fail, Open fails.
const firstTries = 5

// Isolation says which records of transactions are read.
type Isolation int8

const (
	// ReadUncommitted reads every record as soon as it is replicated, including those of aborted transactions.
	ReadUncommitted Isolation = 0
	// ReadCommitted reads up to the first open transaction and leaves out aborted ones.
	ReadCommitted Isolation = 1
)

// Start is where a partition begins when nothing is committed. The zero value means the first record that still exists.
type Start struct {
	// Latest begins at the end of the log.
	Latest bool
	// Time, when not zero, begins at the first record of this time or later.
	Time time.Time
}

// Options are the settings of a Client.
type Options struct {
	// Brokers are the bootstrap addresses, host:port. All metadata requests go to them, so they must stay valid.
	Brokers []string
	// Topics are the names that the client routes requests for, until Route replaces them. Other topics cannot be fetched.
	Topics []string
	// Security protects the connections. Its zero value means plaintext without authentication.
	Security Security
	// FetchBytes is the most bytes the broker shall send for one fetch. The first record batch comes whole even when it is
	// larger.
	FetchBytes int32
	// FetchWait is how long the broker waits for the first new record.
	FetchWait time.Duration
	// Isolation is the isolation of reads. Zero means ReadUncommitted.
	Isolation Isolation
	// Start is where logs begin when nothing is committed.
	Start Start
	// Decoding bounds the decoding of record batches.
	Decoding recordbatch.Options
	// Logger takes the few life-cycle lines of this package. Nil means no logging.
	Logger *slog.Logger
}

// validate refuses impossible settings and reports all problems at once.
func (o Options) validate() error {
	var problems []error
	if len(o.Brokers) == 0 {
		problems = append(problems, errors.New("KAFKA_BROKERS contains no broker"))
	}
	for _, broker := range o.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("KAFKA_BROKERS: %q is not an address: write host:port", broker))
		}
	}
	if o.FetchBytes < 1 || o.FetchBytes > wire.MaxResponseBytes/2 {
		problems = append(problems, fmt.Errorf("KAFKA_FETCH_BYTES is %d: it must be 1 to %d bytes", o.FetchBytes, wire.MaxResponseBytes/2))
	}
	if o.FetchWait < time.Millisecond || o.FetchWait > time.Minute {
		problems = append(problems, fmt.Errorf("KAFKA_FETCH_WAIT is %v: it must be 1ms to 1m", o.FetchWait))
	}
	return errors.Join(problems...)
}

// Client asks one Kafka cluster. It is safe for concurrent use.
type Client struct {
	options   Options
	address   net.Addr // all bootstrap brokers
	connector *connector
	transport atomic.Pointer[kafkago.Transport]
	clusterID string
	metrics   *Metrics
	memory    *recordbatch.Memory
	answers   *answerMemory
	resting   *resting
	young     sync.Map // names of topics whose logs begin at their first record
}

// Open connects to the cluster. It refuses brokers before Kafka 3.1, because those cannot tell a topic from another that was
// created later under its name. Its error is for a person and names the wrong setting. If Classify returns Retry for it, no broker
// was reached, and another attempt can help.
func Open(ctx context.Context, options Options, registerer prometheus.Registerer) (*Client, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if err := options.validate(); err != nil {
		return nil, &settingError{err}
	}
	connector, err := options.Security.connector(options.Logger)
	if err != nil {
		return nil, &settingError{err}
	}
	connector.bootstrap = options.Brokers
	if err := connector.probe(ctx, options.Brokers); err != nil {
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	c := &Client{
		options:   options,
		address:   kafkago.TCP(options.Brokers...),
		connector: connector,
		metrics:   NewMetrics(registerer),
		memory:    recordbatch.NewMemory(options.Decoding),
		answers:   newAnswerMemory(int(options.FetchBytes)),
	}
	c.resting = newResting(c)
	c.transport.Store(connector.transport(options.Topics))
	err = patiently(ctx, firstTries, func() error {
		answer, err := c.metadata(ctx, nil)
		c.clusterID = answer.clusterID
		return err
	})
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	return c, nil
}

// ClusterID is the id the cluster was formatted with.
func (c *Client) ClusterID() string { return c.clusterID }

// Close closes each connection when its requests are answered. Batches stay valid.
func (c *Client) Close() {
	c.resting.stop()
	c.transport.Load().CloseIdleConnections()
}

// Route makes the client route requests for these topics instead of Options.Topics. It does not disturb requests under way.
func (c *Client) Route(topics []string) {
	c.transport.Swap(c.connector.transport(topics)).CloseIdleConnections()
}

// BeginAtFirst makes logs of a topic begin at their first record, whatever Options.Start says.
func (c *Client) BeginAtFirst(topic string) { c.young.Store(topic, true) }

// start returns where a topic's logs begin when nothing is committed.
func (c *Client) start(topic string) Start {
	if _, young := c.young.Load(topic); young {
		return Start{}
	}
	return c.options.Start
}

// RoundTrip implements Asker.
func (c *Client) RoundTrip(ctx context.Context, request kafkago.Request) (kafkago.Response, error) {
	answer, err := c.transport.Load().RoundTrip(ctx, c.address, request)
	return answer, c.connector.unanswered(err)
}

// Asker sends requests, as a Client does.
type Asker interface {
	// RoundTrip sends a request and returns its answer. When no answer comes, it returns only at the end of ctx.
	RoundTrip(ctx context.Context, request kafkago.Request) (kafkago.Response, error)
}

// Ask sends a request about a partition, or about none, and returns its answer. Its error is an *Error.
func Ask[A kafkago.Response](ctx context.Context, to Asker, of record.Partition, request kafkago.Request) (A, error) {
	response, err := to.RoundTrip(ctx, request)
	answer, ok := response.(A)
	if err == nil && !ok {
		err = fmt.Errorf("%w: unexpected type %T", wire.ErrMalformed, response)
	}
	if err != nil {
		return answer, NoAnswer(request.ApiKey(), of, err)
	}
	return answer, nil
}

// ask is Ask with a deadline of wait plus AnswerTimeout.
func ask[A kafkago.Response](ctx context.Context, c *Client, of record.Partition, wait time.Duration, request kafkago.Request) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+AnswerTimeout)
	defer cancel()
	return Ask[A](ctx, c, of, request)
}

// own is ask for a request of package wire.
func own[A any](ctx context.Context, c *Client, of record.Partition, wait time.Duration, request kafkago.Request) (value A, err error) {
	answer, err := ask[*wire.Answer[A]](ctx, c, of, wait, request)
	if err != nil {
		return value, err
	}
	return answer.Value, nil
}

const (
	// requestBytes bounds one request of several messages, well under the broker's default of 1 MiB.
	requestBytes = 512 << 10
	// messageOverhead bounds the bytes that Kafka's record format adds to a message. headerOverhead bounds those that it adds to
	// a header.
	messageOverhead, headerOverhead = 40, 10
	// latestTimestamp is the last time, in milliseconds, that kafka-go writes unchanged. kafka-go counts nanoseconds in an int64
	// and replaces 0 by the current time.
	latestTimestamp = math.MaxInt64 / 1_000_000
)

// Message is a record to write.
type Message struct {
	// Timestamp is in milliseconds since 1970. A time that Kafka cannot keep becomes the present time.
	Timestamp int64
	// Key and Value are written as null when nil.
	Key, Value []byte
	Headers    []record.Header
}

// Size bounds the bytes that the message takes in a request.
func (m *Message) Size() int {
	n := messageOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value) + headerOverhead
	}
	return n
}

// Fitting returns how many of the first items fit into one request. A single item beyond the limit goes alone.
func Fitting[T any](items []T, size func(*T) int) int {
	bytes := 0
	for n := range items {
		if bytes += size(&items[n]); n > 0 && bytes > requestBytes {
			return n
		}
	}
	return len(items)
}

// Writer writes to topics. Its methods are safe for concurrent use, but Close comes last.
//
// It does not use kafka-go's Writer, for three reasons. kafka-go's Writer merges the messages of all callers into its own
// batches, so one refused message fails those of other callers. It goes on writing after its context has ended. And closing it
// during a write can hang.
type Writer struct {
	connector *connector
	address   net.Addr // all bootstrap brokers
	transport atomic.Pointer[kafkago.Transport]
}

// Writer makes a writer to topics, with its own connections. A kafka-go transport knows only the leaders of the topics that it
// was made for.
func (c *Client) Writer(topics ...string) *Writer {
	w := &Writer{connector: c.connector, address: c.address}
	w.transport.Store(c.connector.transport(topics))
	return w
}

// Route makes the writer write to these topics. It does not disturb writes under way.
func (w *Writer) Route(topics ...string) {
	w.transport.Swap(w.connector.transport(topics)).CloseIdleConnections()
}

// Close closes the connections.
func (w *Writer) Close() { w.transport.Load().CloseIdleConnections() }

func (w *Writer) client() *kafkago.Client {
	return &kafkago.Client{Addr: w.address, Transport: w.transport.Load(), Timeout: AnswerTimeout}
}

// Write writes messages to a partition in one request and one record batch. It waits until all in-sync replicas have them. It
// keeps no bytes of the messages.
func (w *Writer) Write(ctx context.Context, to record.Partition, messages ...Message) error {
	records := make([]kafkago.Record, len(messages))
	for i := range messages {
		// A request abandoned at the end of its context may still be encoded later, so it shares no bytes.
		m := &messages[i]
		records[i] = kafkago.Record{
			Time: time.UnixMilli(m.Timestamp), Key: kafkago.NewBytes(bytes.Clone(m.Key)), Value: kafkago.NewBytes(bytes.Clone(m.Value)),
		}
		if m.Timestamp <= 0 || m.Timestamp > latestTimestamp {
			records[i].Time = time.Now()
		}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kafkago.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	response, err := w.client().Produce(ctx, &kafkago.ProduceRequest{
		Topic: to.Topic, Partition: int(to.Number), RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(records...),
	})
	if err != nil {
		return w.connector.unanswered(err)
	}
	return response.Error
}

// Partitions returns the topic's number of partitions. It may be a moment old.
func (w *Writer) Partitions(ctx context.Context, topic string) (int, error) {
	metadata, err := w.client().Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, w.connector.unanswered(err)
	}
	for _, t := range metadata.Topics {
		if t.Name == topic && (t.Error != nil || len(t.Partitions) > 0) {
			return len(t.Partitions), t.Error
		}
	}
	return 0, kafkago.UnknownTopicOrPartition
}

// NewTopic is a topic to create.
type NewTopic struct {
	Name string
	// Partitions and Replication are the broker's defaults when 0.
	Partitions, Replication int
	// Configuration are settings of the topic.
	Configuration map[string]string
}

// Create creates the topics that do not exist yet, and waits until this writer knows them.
func (w *Writer) Create(ctx context.Context, topics ...NewTopic) error {
	ctx, cancel := context.WithTimeout(ctx, 2*AnswerTimeout)
	defer cancel()
	request := &kafkago.CreateTopicsRequest{}
	for _, t := range topics {
		config := kafkago.TopicConfig{
			Topic: t.Name, NumPartitions: cmp.Or(t.Partitions, byDefault), ReplicationFactor: cmp.Or(t.Replication, byDefault),
		}
		for name, value := range t.Configuration {
			config.ConfigEntries = append(config.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		request.Topics = append(request.Topics, config)
	}
	response, err := w.client().CreateTopics(ctx, request)
	if err != nil {
		return fmt.Errorf("creating topics: %w", w.connector.unanswered(err))
	}
	for _, t := range topics {
		if err := response.Errors[t.Name]; err != nil && !errors.Is(err, kafkago.TopicAlreadyExists) {
			return fmt.Errorf("creating topic %q: %w", t.Name, err)
		}
	}
	return nil
}
