package source

import (
	"context"
	"crypto/x509"
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

var (
	// errUnreachable is a broker of which nothing is known: another one may answer.
	errUnreachable = errors.New("cannot be reached")
	// errNoAnswer is a broker that hangs up on the very first request, which any Kafka answers to anybody.
	errNoAnswer = errors.New("no answer to the first request")
)

// probe connects to the first bootstrap broker that answers, the way every later connection will be made. kafka-go's
// Transport says "unexpected EOF" to a wrong password, to missing TLS and to missing SASL alike; this finds out which it
// is. A broker that hangs up may be starting, or a proxy before one that is down: the settings are only to blame when no
// other broker answers either.
func (c *connector) probe(ctx context.Context, options Options) error {
	var unreachable, mute []error
	for _, broker := range options.Brokers {
		err := c.probeBroker(ctx, broker, options.ClientID)
		if err == nil {
			return nil
		}
		switch {
		case errors.Is(err, errUnreachable):
			unreachable = append(unreachable, err)
		case errors.Is(err, errNoAnswer):
			mute = append(mute, err)
		default:
			return &settingError{err}
		}
	}
	if len(mute) > 0 {
		return &settingError{errors.Join(mute...)}
	}
	return fmt.Errorf("no broker of KAFKA_BROKERS: %w", errors.Join(unreachable...))
}

func (c *connector) probeBroker(ctx context.Context, broker, clientID string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var dialing error
	dialer := kafka.Dialer{
		ClientID:      clientID,
		SASLMechanism: c.sasl,
		DialFunc: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			conn, dialing = c.dialProbe(ctx, network, address, clientID)
			return conn, dialing
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", broker)
	if dialing != nil { // without kafka-go's words around it
		return c.explain(ctx, broker, dialing)
	}
	if err != nil {
		return c.explain(ctx, broker, err)
	}
	defer conn.Close()
	_, err = conn.Brokers() // the first request that needs authentication
	switch {
	case err == nil:
		return nil
	case c.sasl == nil && hungUp(err):
		return fmt.Errorf("%s hangs up on an unauthenticated request: this listener wants SASL, set KAFKA_SECURITY to sasl_plaintext or sasl_tls", broker)
	default:
		return c.explain(ctx, broker, err)
	}
}

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
		return kafka.UnsupportedVersion
	}
	return nil
}

// explain turns what a connection died of into the setting to look at.
func (c *connector) explain(ctx context.Context, broker string, err error) error {
	code, coded := errors.AsType[kafka.Error](err)
	operation, network := errors.AsType[*net.OpError](err)
	_, unknownAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	switch {
	case coded && answerOf(code).class == StopProgram:
		return fmt.Errorf("%s: %w; %s", broker, code, answerOf(code).advice)
	case ctx.Err() != nil:
		return fmt.Errorf("%s %w within %v: is it a Kafka listener, and of the kind KAFKA_SECURITY says? %w", broker, errUnreachable, c.timeout, ctx.Err())
	case network && operation.Op == "remote error": // an alert of TLS
		return fmt.Errorf("%s refuses this client: look at KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE: %w", broker, err)
	case unknownAuthority:
		return fmt.Errorf("%s has a certificate of an unknown authority: put its CA into KAFKA_TLS_CA_FILE: %w", broker, err)
	case otherName:
		return fmt.Errorf("%s has a certificate for another name: set KAFKA_TLS_SERVER_NAME or dial it by that name: %w", broker, err)
	case c.tls != nil && (hungUp(err) || strings.Contains(err.Error(), "does not look like a TLS handshake")):
		return fmt.Errorf("%s does not speak TLS: look at KAFKA_SECURITY and the port in KAFKA_BROKERS: %w", broker, err)
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("%s does not answer as Kafka without TLS does: if it wants TLS set KAFKA_SECURITY to tls or sasl_tls, else look at the port in KAFKA_BROKERS: %w", broker, err)
	default:
		return fmt.Errorf("%s %w: %w", broker, errUnreachable, err)
	}
}

// hungUp says whether the broker ended the connection instead of answering.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
