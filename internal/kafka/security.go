package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"waterwheel/internal/kafka/wire"
)

// Security is how connections to the brokers are protected. The zero value is plaintext without authentication.
type Security struct {
	// TLS encrypts connections when it is not nil.
	TLS *TLS
	// SASL authenticates connections when it is not nil.
	SASL *SASL
}

// SASL is a user and its credentials.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	Mechanism string
	Username  string
	Password  string
	// OAuth is the source of tokens for OAUTHBEARER. It replaces Username and Password.
	OAuth *OAuth
}

// user names the user in messages.
func (s *SASL) user() string {
	if s.Mechanism == oauthBearer && s.OAuth != nil {
		return cmp.Or(s.OAuth.ClientID, s.OAuth.TokenFile)
	}
	return s.Username
}

// mechanism returns the mechanism. It is nil without authentication.
func (s *SASL) mechanism() (sasl.Mechanism, error) {
	if s == nil {
		return nil, nil
	}
	if s.Mechanism == oauthBearer && s.OAuth != nil {
		return s.OAuth.mechanism()
	}
	if s.Username == "" || s.Password == "" {
		return nil, errors.New("KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD must both be set")
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: s.Username, Password: s.Password}, nil
	case "SCRAM-SHA-256":
		return scramMechanism(scram.SHA256, s)
	case "SCRAM-SHA-512":
		return scramMechanism(scram.SHA512, s)
	default:
		return nil, fmt.Errorf("KAFKA_SASL_MECHANISM is %q: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER are supported", s.Mechanism)
	}
}

func scramMechanism(algorithm scram.Algorithm, s *SASL) (sasl.Mechanism, error) {
	mechanism, err := scram.Mechanism(algorithm, s.Username, s.Password)
	if err != nil { // its text holds the password
		return nil, errors.New("KAFKA_SASL_USERNAME or KAFKA_SASL_PASSWORD contains a character that SCRAM does not allow")
	}
	return mechanism, nil
}

// connector opens connections for kafka-go's Transport that are already logged in. It does TLS and SASL itself, because kafka-go
// takes one fixed TLS configuration, cannot say why a handshake failed, and decodes without bounds.
type connector struct {
	sasl sasl.Mechanism // nil without authentication
	user string         // names the user in messages
	tls  *tlsFiles      // nil without TLS
	// bootstrap holds the addresses of the settings. Empty means not known. The cluster tells all other addresses.
	bootstrap []string
	reach     reach
	timeout   time.Duration // for opening one connection, including TCP, TLS and authentication
}

func (s Security) connector(logger *slog.Logger) (*connector, error) {
	mechanism, err := s.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	c := &connector{sasl: mechanism, timeout: 5 * time.Second}
	if s.SASL != nil {
		c.user = s.SASL.user()
	}
	if s.TLS != nil {
		if c.tls, err = newTLSFiles(*s.TLS, logger); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// dial opens a connection, encrypted and logged in as the settings say. Its signature is kafka-go's.
func (c *connector) dial(ctx context.Context, network, address string) (net.Conn, error) {
	opened, err := c.open(ctx, network, address)
	if err == nil {
		c.reach.note(address, nil)
		return opened, nil
	}
	err = c.explain(ctx, address, err)
	if !errors.Is(err, context.Canceled) { // a connection that was given up says nothing about the broker
		c.reach.note(address, err)
	}
	if len(c.bootstrap) > 0 && !slices.Contains(c.bootstrap, address) {
		err = fmt.Errorf("%w; this address is not in KAFKA_BROKERS: the brokers advertise it (advertised.listeners in their configuration)", err)
	}
	return nil, err
}

// open is dial without explained errors.
func (c *connector) open(ctx context.Context, network, address string) (*wire.Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &wire.Conn{Conn: raw}
	if err := c.secure(ctx, opened, address); err != nil {
		raw.Close()
		return nil, err
	}
	return opened, nil
}

// secure encrypts a connection and logs in on it.
func (c *connector) secure(ctx context.Context, opened *wire.Conn, address string) error {
	if c.tls != nil {
		secured := tls.Client(opened.Conn, c.tls.config(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("%w: %w", errHandshake, err)
		}
		opened.Conn = secured
	}
	if c.sasl == nil {
		return nil
	}
	s := &session{mechanism: c.sasl, user: c.user}
	opened.Renew = s.renew
	return wire.Within(ctx, opened.Conn, func() error { return s.prove(ctx, opened.Conn) })
}

func (c *connector) transport(topics []string) *kafkago.Transport {
	return &kafkago.Transport{
		Dial:           c.dial,
		DialTimeout:    c.timeout,
		MetadataTTL:    time.Second, // how long a moved leader may stay unknown
		MetadataTopics: topics,
		ClientID:       wire.ClientID,
	}
}
