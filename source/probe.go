package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// The versions of our own messages.
const (
	fetchVersion    = 13 // the first to address a topic by its id; Kafka 3.1
	metadataVersion = 12
)

// probe connects to the first bootstrap broker that takes connections, the way every later connection will be made.
// kafka-go's Transport says "unexpected EOF" to a wrong password, to missing TLS and to missing SASL alike; this finds
// out which it is.
func (c *connector) probe(ctx context.Context, options Options) error {
	var unreachable []error
	for _, broker := range options.Brokers {
		err := c.probeBroker(ctx, broker, options.ClientID)
		if _, isNet := errors.AsType[*net.OpError](err); !isNet {
			return err
		}
		unreachable = append(unreachable, err)
	}
	return fmt.Errorf("no broker of KAFKA_BROKERS can be reached: %w", errors.Join(unreachable...))
}

func (c *connector) probeBroker(ctx context.Context, broker, clientID string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	dialer := kafka.Dialer{
		ClientID:      clientID,
		SASLMechanism: c.sasl,
		DialFunc: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dialProbe(ctx, network, address, clientID)
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", broker)
	if err != nil {
		return c.explain(ctx, broker, err)
	}
	defer conn.Close()
	if _, err := conn.Brokers(); err != nil { // the first request that needs authentication
		if c.sasl == nil && hungUp(err) {
			return fmt.Errorf("%s hangs up on an unauthenticated request: this listener wants SASL, set KAFKA_SECURITY to sasl_plaintext or sasl_tls", broker)
		}
		return c.explain(ctx, broker, err)
	}
	return nil
}

// errNoAnswer is a broker that hangs up on the very first request, which any Kafka answers to anybody.
var errNoAnswer = errors.New("no answer to the first request")

// dialProbe opens a connection that is closed when the context ends, for kafka-go's Dialer does not look at it while
// it authenticates, and sees that the broker is a Kafka of our time.
func (c *connector) dialProbe(ctx context.Context, network, address, clientID string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	if err := checkVersions(conn, clientID); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkVersions asks which requests the broker knows.
func checkVersions(rw io.ReadWriter, clientID string) error {
	answer, err := exchange(rw, call{api: protocol.ApiVersions, version: 0, clientID: clientID}, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	known := make(map[protocol.ApiKey]int16)
	r := reader{rest: answer}
	code := r.int16()
	for n := r.int32(); n > 0 && r.err == nil; n-- {
		api, _, newest := protocol.ApiKey(r.int16()), r.int16(), r.int16()
		known[api] = newest
	}
	if r.err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, r.err)
	}
	if err := answered(protocol.ApiVersions, "", -1, code); err != nil {
		return err
	}
	if known[protocol.Fetch] < fetchVersion || known[protocol.Metadata] < metadataVersion {
		return &Error{API: protocol.ApiVersions.String(), Partition: -1, Err: kafka.UnsupportedVersion}
	}
	return nil
}

// explain turns what a connection died of into the setting to look at.
func (c *connector) explain(ctx context.Context, broker string, err error) error {
	code, answered := errors.AsType[kafka.Error](err)
	switch {
	case answered:
		return fmt.Errorf("%s: %w; %s", broker, code, advice(code))
	case ctx.Err() != nil:
		return fmt.Errorf("%s: no answer within %v: is it a Kafka listener, and of the kind KAFKA_SECURITY says? %w", broker, c.timeout, ctx.Err())
	case c.tls != nil && (hungUp(err) || strings.Contains(err.Error(), "does not look like a TLS handshake")):
		return fmt.Errorf("%s does not speak TLS: look at KAFKA_SECURITY and the port in KAFKA_BROKERS: %w", broker, err)
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("%s does not answer as Kafka without TLS does: if it wants TLS set KAFKA_SECURITY to tls or sasl_tls, else look at the port in KAFKA_BROKERS: %w", broker, err)
	default:
		return err
	}
}

// hungUp says whether the broker ended the connection instead of answering.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
