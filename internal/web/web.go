// Package web answers HTTP: a server with an orderly shutdown, headers that restrict browsers, and a limit of concurrent
// requests.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"
)

// These are timeouts of connections.
const (
	readTimeout  = 5 * time.Second
	closeTimeout = time.Second
)

// headerBytes is the maximum size of a request's first line and headers. Longer requests are answered with status 431.
const headerBytes = 64 << 10

// Server serves HTTP at one address.
type Server struct {
	Setting string // the setting that the address comes from
	Address string // Empty means that Run does nothing.
	Handler http.Handler
	// Longest bounds the time of an answer. Zero means no bound.
	Longest time.Duration
	// TLS encrypts the connections. Nil means no encryption.
	TLS *tls.Config
	Log *slog.Logger
}

// Run answers until ctx ends. Without an address it does nothing. After ctx ends, pending requests may finish until closing ends,
// but for at most one second. Run returns an error only if it cannot listen or the serving fails.
func (s *Server) Run(ctx, closing context.Context) error {
	if s.Address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listening at %s: another process is using this port: choose another %s: %w", s.Address, s.Setting, err)
	}
	if err != nil {
		return fmt.Errorf("listening at %s (%s): %w", s.Address, s.Setting, err)
	}
	s.Log.Info("listening", "setting", s.Setting, "address", listener.Addr().String(), "answers", audience(listener.Addr()))
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      s.Longest,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	if s.TLS != nil {
		listener = tls.NewListener(listener, s.TLS)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(closing, closeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			server.Close()
		}
		err = <-served
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving at %s (%s): %w", s.Address, s.Setting, err)
}

// audience describes who can reach a listening address.
func audience(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return "this machine only"
	}
	return "all machines that can reach it"
}

// waitersEach is how many requests may wait for each request that is answered.
const waitersEach = 8

// Limited answers at most most requests at a time. At most waitersEach times most further requests wait, for at most wait. busy
// answers all others. Requests for the free paths do not count.
func Limited(next http.Handler, most int, wait time.Duration, busy http.HandlerFunc, free ...string) http.Handler {
	places, waiters := make(chan struct{}, most), make(chan struct{}, waitersEach*most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(free, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if !take(r, places, waiters, wait) {
			w.Header().Set("Retry-After", "1")
			busy(w, r)
			return
		}
		defer func() { <-places }()
		next.ServeHTTP(w, r)
	})
}

// take takes a place, and waits for it if necessary. False means that there was none in time.
func take(r *http.Request, places, waiters chan struct{}, wait time.Duration) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	select {
	case waiters <- struct{}{}:
		defer func() { <-waiters }()
	default:
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-timer.C:
	case <-r.Context().Done():
	}
	return false
}

// Guarded sets headers that make browsers use an answer only as its own type, only within its own site, and without a cache.
func Guarded(next http.Handler) http.Handler {
	headers := map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"Content-Security-Policy":      "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Frame-Options":              "DENY", // frame-ancestors, for older browsers
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// Busy answers that there are too many requests.
func Busy(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "too many requests at the same time: try again in a moment", http.StatusServiceUnavailable)
}

// Certificate is a server's certificate and its key, in PEM files. They are read again for each connection, because they may be
// replaced while the program runs. If they cannot be read, for example while they are replaced, the last certificate stays in
// use.
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

// Config returns the configuration of a server with this certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.newest(), nil }}
}

func (c *Certificate) newest() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Warn("the certificate cannot be read again: the server uses the previous certificate", "file", c.cert, "err", err)
		return c.last
	}
	c.last = &now
	return c.last
}
