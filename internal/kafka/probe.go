package kafka

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

var (
	// errUnreachable means that the broker cannot be reached. Another one may answer.
	errUnreachable = errors.New("cannot be reached")
	// errNoAnswer means that a broker hangs up on the very first request. Any Kafka broker answers that request to any client.
	errNoAnswer = errors.New("no answer to the first request")
	// errLoginCut means that a broker hangs up instead of answering a login. Some brokers refuse a password this way. Any broker
	// may be stopping.
	errLoginCut = errors.New("no answer to the login")
	// errNoLogin means that a broker hangs up on the first request that needs a login.
	errNoLogin = errors.New("not logged in")
	// errController means that the address is a listener of a KRaft controller, which knows other requests than a broker.
	errController = errors.New("a KRaft controller, not a broker")
	// errHandshake means that a TLS handshake failed, on either side.
	errHandshake = errors.New("TLS handshake")
)

// probe connects to the first bootstrap broker that answers, as every later connection does. When a broker answers in an
// unexpected way, probe finds out which setting is wrong. A broker that hangs up before any answer blames no setting. It may be
// starting, or be a proxy in front of a broker that is down.
func (c *connector) probe(ctx context.Context, brokers []string) error {
	var away reach
	var mute []error
	for _, broker := range brokers {
		err := c.probeBroker(ctx, broker)
		if err == nil {
			return nil
		}
		switch {
		case errors.Is(err, errUnreachable), hungUpAtOnce(err):
			away.note(broker, err)
		case errors.Is(err, errNoAnswer), errors.Is(err, errLoginCut):
			mute = append(mute, err)
		default:
			return &settingError{err}
		}
	}
	if len(mute) > 0 {
		return &settingError{errors.Join(mute...)}
	}
	return away.none(brokers)
}

func (c *connector) probeBroker(ctx context.Context, broker string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.open(ctx, "tcp", broker)
	if err != nil {
		return c.explain(ctx, broker, err)
	}
	defer conn.Close()
	if err := wire.Within(ctx, conn, func() error { return c.ask(conn) }); err != nil {
		return c.explain(ctx, broker, err)
	}
	return nil
}

// ask requests the versions, which any broker tells any client, and the cluster metadata, which may need a login.
func (c *connector) ask(conn net.Conn) error {
	if err := checkVersions(conn); err != nil {
		return err
	}
	_, err := metadataRequest(nil).RawExchange(conn)
	if c.sasl == nil && hungUp(err) {
		return fmt.Errorf("%w: %w", errNoLogin, err)
	}
	return err
}

// brokerRegistration is the request by which a broker reports to a controller. Controllers answer it, brokers do not.
const brokerRegistration protocol.ApiKey = 62

// checkVersions asks which requests the broker knows.
func checkVersions(rw io.ReadWriter) error {
	answer, err := wire.Exchange(rw, wire.Call{API: protocol.ApiVersions})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	known := make(map[protocol.ApiKey]int16)
	r := wire.NewReader(answer)
	code := r.Int16()
	for range r.Times(r.LongLen()) {
		api, _, newest := protocol.ApiKey(r.Int16()), r.Int16(), r.Int16()
		known[api] = newest
	}
	if r.Err() != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, r.Err())
	}
	if err := CodeError(protocol.ApiVersions, record.Partition{}, code); err != nil {
		return err
	}
	_, hasMetadata := known[protocol.Metadata]
	if _, takesBrokers := known[brokerRegistration]; takesBrokers && !hasMetadata {
		return errController
	}
	if known[protocol.Fetch] < wire.Version(protocol.Fetch) || known[protocol.Metadata] < wire.Version(protocol.Metadata) {
		return kafkago.UnsupportedVersion
	}
	return nil
}

// explain turns the error of a connection into advice about a setting.
func (c *connector) explain(ctx context.Context, broker string, err error) error {
	code, coded := errors.AsType[kafkago.Error](err)
	switch {
	case errors.Is(err, errTokenAway):
		return fmt.Errorf("%s %w: %w", broker, errUnreachable, err)
	case errors.Is(err, errTokenRefused):
		return fmt.Errorf("%s: %w", broker, err)
	case code == kafkago.SASLAuthenticationFailed && c.sasl != nil && c.sasl.Name() == oauthBearer:
		return fmt.Errorf("%s: %w; compare the token's issuer, audience, scope and times with the broker's clock "+
			"and the broker's settings sasl.oauthbearer.expected.issuer and sasl.oauthbearer.expected.audience", broker, err)
	}
	if coded && answerOf(code).class == StopProgram {
		return fmt.Errorf("%s: %w; %s", broker, err, answerOf(code).advice)
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s %w within %v: check that this is the address of a Kafka listener, and that KAFKA_SECURITY fits this listener: %w",
			broker, errUnreachable, c.timeout, cmp.Or(ctx.Err(), context.DeadlineExceeded))
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("%s %w: DNS does not know %s: check the spelling and the DNS entry: %w", broker, errUnreachable, unknown.Name, err)
	}
	says := ""
	switch {
	case errors.Is(err, errHandshake):
		says = explainHandshake(err)
	case alerted(err):
		says = "refuses this client's certificate, or refuses a client without a certificate: check KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE"
	case errors.Is(err, errLoginCut):
		says = "closes the connection at the login: check KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD, unless the broker is shutting down"
	case errors.Is(err, errNoLogin):
		says = "closes the connection after a request without a login: this listener requires SASL; set KAFKA_SECURITY to " + c.withSASL()
	case errors.Is(err, errController):
		says = "is a listener of a KRaft controller: set KAFKA_BROKERS to a listener of a broker, which is not in controller.listener.names of the broker's configuration"
	case errors.Is(err, errNoAnswer) && c.tls != nil:
		says = "completes the TLS handshake and then closes the connection. Possible causes: a proxy in front of a broker that is down, a listener that requires " +
			"another client certificate (KAFKA_TLS_CERT_FILE), or a server that is not Kafka (check the port in KAFKA_BROKERS)"
	case hungUpAtOnce(err):
		says = "closes the connection immediately. Possible causes: a proxy in front of a broker that is down, a listener that requires TLS " +
			"(set KAFKA_SECURITY to tls or sasl_tls), or a server that is not Kafka (check the port in KAFKA_BROKERS)"
	case errors.Is(err, errNoAnswer):
		says = "does not answer like a Kafka broker without TLS: if this listener requires TLS, set KAFKA_SECURITY to tls or sasl_tls; if not, check the port in KAFKA_BROKERS"
	default:
		return fmt.Errorf("%s %w: %w", broker, errUnreachable, err)
	}
	return fmt.Errorf("%s %s: %w", broker, says, err)
}

// explainHandshake explains why a TLS handshake failed.
func explainHandshake(err error) string {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, unknownAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	switch {
	case alerted(err):
		return "refuses this client in the TLS handshake: check KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE"
	case unknownAuthority:
		return "has a certificate of an unknown authority: put its CA into KAFKA_TLS_CA_FILE"
	case otherName:
		return "has a certificate for another name: set KAFKA_TLS_SERVER_NAME to that name, or use that name as the address"
	case isInvalid && invalid.Reason == x509.Expired:
		return "has a certificate that is not valid at this time: give the broker a new certificate, or correct the clock that is wrong"
	case isInvalid:
		return "has a certificate that is not valid for a server: give the broker a server certificate"
	case hungUp(err):
		return "closes the connection in the TLS handshake. Possible causes: a proxy in front of a broker that is down, or a listener that does not speak TLS " +
			"(check KAFKA_SECURITY and the port in KAFKA_BROKERS)"
	case strings.Contains(err.Error(), "does not look like a TLS handshake"):
		return "does not speak TLS: check KAFKA_SECURITY and the port in KAFKA_BROKERS"
	}
	return "cannot agree on TLS with this client: check the broker's ssl.enabled.protocols and ssl.cipher.suites, and KAFKA_TLS_…"
}

// withSASL returns the value of KAFKA_SECURITY that adds SASL.
func (c *connector) withSASL() string {
	if c.tls != nil {
		return "sasl_tls"
	}
	return "sasl_plaintext"
}

// alerted reports whether the error is a TLS alert of the other side.
func alerted(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == "remote error"
}

// hungUp reports whether the broker ended the connection instead of answering.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// hungUpAtOnce reports whether the broker ended the connection before it had answered anything.
func hungUpAtOnce(err error) bool {
	return hungUp(err) && (errors.Is(err, errNoAnswer) || errors.Is(err, errHandshake))
}

// errNoBroker means that no bootstrap broker can be connected to. kafka-go's own error depends on its last metadata. It may say
// that a partition has no leader, or that one broker refuses connections.
var errNoBroker = errors.New("no broker of KAFKA_BROKERS can be reached")

// reach remembers why the last connection to each bootstrap broker failed. It is safe for concurrent use.
type reach struct {
	mu     sync.Mutex
	failed map[string]error // by address, without brokers whose last connection succeeded
}

// note keeps the outcome of a connection to an address.
func (r *reach) note(address string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.failed, address)
		return
	}
	if r.failed == nil {
		r.failed = map[string]error{}
	}
	r.failed[address] = err
}

// none returns an errNoBroker with the cause for each broker. It is nil if the last connection to one of them succeeded or none
// was tried.
func (r *reach) none(brokers []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var causes []string
	for _, broker := range brokers {
		err := r.failed[broker]
		if err == nil {
			return nil
		}
		causes = append(causes, broker+": "+causeOf(broker, err))
	}
	if causes == nil {
		return nil
	}
	return fmt.Errorf("%w (%s)", errNoBroker, strings.Join(slices.Compact(causes), "; "))
}

// causeOf returns the cause in an error about a broker, without the words that the broker cannot be reached.
func causeOf(broker string, err error) string {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && errors.Is(err, errUnreachable) && !errors.Is(err, errTokenAway) && !dial.Timeout() {
		if _, unknown := errors.AsType[*net.DNSError](err); !unknown {
			return dial.Err.Error()
		}
	}
	text := strings.TrimPrefix(err.Error(), broker+" ")
	if rest, ok := strings.CutPrefix(text, errUnreachable.Error()+" within "); ok {
		return "no answer within " + rest
	}
	return strings.TrimPrefix(text, errUnreachable.Error()+": ")
}

// unanswered returns the errNoBroker that explains the error of a request, or else the error itself.
func (c *connector) unanswered(err error) error {
	if Classify(err) != Retry || errors.Is(err, context.Canceled) {
		return err
	}
	if none := c.reach.none(c.bootstrap); none != nil {
		return none
	}
	return err
}
