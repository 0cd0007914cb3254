package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
)

// answerTimeout is added to what a request may wait at the broker: kafka-go waits for ever without a deadline.
const answerTimeout = 5 * time.Second

// The first request is tried so often, with a pause: what cannot be reached then ends the start.
const (
	firstTries = 5
	firstPause = 300 * time.Millisecond
)

// Client asks one Kafka cluster. All its methods may be called at the same time.
type Client struct {
	options   Options
	address   net.Addr // all bootstrap brokers
	transport *kafkago.Transport
	client    *kafkago.Client // the same transport, for the requests kafka-go has
	clusterID string
	metrics   *fetchMetrics

	batches   sync.Pool // of *Batch
	codecs    sync.Pool // of *codecs
	unfolders *unfolders
}

// Open connects to the cluster. It refuses brokers before Kafka 3.1, on which a topic deleted and created again would be
// read on unnoticed. Its error is for a person and names the setting that is wrong; Classify tells whether trying
// again can help (Retry: nobody was reached).
func Open(ctx context.Context, options Options, registerer prometheus.Registerer) (*Client, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, &settingError{err}
	}
	connector, err := options.Security.connector(options.Logger)
	if err != nil {
		return nil, &settingError{err}
	}
	connector.bootstrap = options.Brokers
	if err := connector.probe(ctx, options); err != nil {
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	c := &Client{
		options:   options,
		address:   kafkago.TCP(options.Brokers...),
		transport: connector.transport(options.ClientID, options.Topics),
		metrics:   newFetchMetrics(registerer),
	}
	c.client = &kafkago.Client{Addr: c.address, Transport: c.transport}
	c.batches.New = func() any { return new(Batch) }
	c.codecs.New = func() any { return &codecs{limit: options.PieceBytes} }
	c.unfolders = newUnfolders()
	answer, err := c.firstMetadata(ctx)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connecting to Kafka: %w", err)
	}
	c.clusterID = answer.clusterID
	return c, nil
}

// firstMetadata asks a few times: each request goes to any broker, and one may be starting or hanging up.
func (c *Client) firstMetadata(ctx context.Context) (answer *metadataAnswer, err error) {
	for range firstTries {
		if answer, err = c.metadata(ctx, nil); err == nil || Classify(err) != Retry {
			break
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(firstPause):
		}
	}
	return answer, err
}

// ClusterID is the id the cluster was formatted with.
func (c *Client) ClusterID() string { return c.clusterID }

// Close closes the connections once their requests are answered. Batches stay valid.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// roundTrip sends one of our own messages and waits for its answer, at most the wait it asks of the broker and the
// time an answer may take.
func roundTrip[Answer kafkago.Response](ctx context.Context, c *Client, request kafkago.Request, wait time.Duration) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	var none Answer
	response, err := c.transport.RoundTrip(ctx, c.address, request)
	if err != nil {
		return none, err
	}
	answer, ok := response.(Answer)
	if !ok {
		return none, fmt.Errorf("%w: a %T", errMalformed, response)
	}
	return answer, nil
}
