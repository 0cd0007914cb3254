package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
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

// TLS names the files of an encrypted connection. They are read again for each new connection, so that certificates
// can be replaced while the program runs.
type TLS struct {
	// CAFile holds the PEM certificates that verify the brokers. Empty means the system's.
	CAFile string
	// CertFile and KeyFile hold this client's certificate and key in PEM. Both empty means none.
	CertFile, KeyFile string
	// ServerName is the name that the brokers' certificates must have. Empty means the dialled host.
	ServerName string
	// Insecure accepts any certificate. The connection is encrypted, but the other side is not verified.
	Insecure bool
}

// tlsFiles keeps the last configuration that could be read. While files are being replaced they may be missing, half written, or
// a certificate with the key of another.
type tlsFiles struct {
	settings TLS
	logger   *slog.Logger

	mu   sync.Mutex
	last *tls.Config
}

func newTLSFiles(settings TLS, logger *slog.Logger) (*tlsFiles, error) {
	config, err := settings.read()
	if err != nil {
		return nil, err
	}
	return &tlsFiles{settings: settings, logger: logger, last: config}, nil
}

// config returns the configuration for one connection to the address.
func (f *tlsFiles) config(address string) *tls.Config {
	config := f.newest().Clone()
	if config.ServerName == "" {
		if host, _, err := net.SplitHostPort(address); err == nil {
			config.ServerName = host
		}
	}
	return config
}

func (f *tlsFiles) newest() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	config, err := f.settings.read()
	if err != nil {
		f.logger.Warn("the TLS files for Kafka cannot be read again: connections use the previous content of the files", "err", err)
		return f.last
	}
	f.last = config
	return config
}

// read makes a configuration from the present files.
func (t TLS) read() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.Insecure,
	}
	if t.CAFile != "" {
		var err error
		if config.RootCAs, err = Authorities("KAFKA_TLS_CA_FILE", t.CAFile); err != nil {
			return nil, err
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE must be set together")
	}
	if t.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// Authorities reads the PEM certificates of a file. setting is the name of the setting that names the file.
func Authorities(setting, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", setting, err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s contains no PEM certificate", setting, file)
	}
	return authorities, nil
}
