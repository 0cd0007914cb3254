package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
)

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
