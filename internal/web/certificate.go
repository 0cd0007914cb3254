package web

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
)

// Certificate is a server's certificate and its key, in PEM files that are read again for each connection: they may be replaced
// while the program runs. Files that cannot be read, as while they are replaced, leave what was read last.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	last *tls.Certificate
}

// NewCertificate reads the files.
func NewCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	first, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate %s and its key %s: %w", cert, key, err)
	}
	return &Certificate{cert: cert, key: key, log: log, last: &first}, nil
}

// Config is that of a server which shows the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.newest(), nil }}
}

func (c *Certificate) newest() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Warn("certificate cannot be read again; the last certificate stays in use", "file", c.cert, "err", err)
		return c.last
	}
	c.last = &now
	return c.last
}
