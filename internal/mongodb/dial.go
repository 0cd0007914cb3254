package mongodb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/ocsp"
)

// dialer makes the driver's connections. It does TLS itself, so that the guard above it sees plain messages.
type dialer struct {
	tls         *tls.Config         // Nil means no TLS.
	revocation  *ocsp.VerifyOptions // Nil means that revocation is not checked.
	sendTimeout time.Duration       // of unacknowledged bytes
	guard       guard

	mu     sync.Mutex
	failed map[string]error // last failure by address, until a connection succeeds; for messages only
}

// dialError is a failed attempt to open a connection. Nothing was sent on it.
type dialError struct {
	Address string
	TLS     bool // the TLS handshake failed
	Err     error
}

// Error names the address.
func (e *dialError) Error() string { return fmt.Sprintf("%s: %v", e.Address, e.Err) }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.Err }

// timedOut reports whether no answer came in time.
func (e *dialError) timedOut() bool {
	timeout := net.Error(nil)
	return errors.Is(e, context.DeadlineExceeded) || errors.As(e.Err, &timeout) && timeout.Timeout()
}

// DialContext opens a connection, does the TLS handshake and wraps the connection in the guard.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.failed[address] = err
		return nil, err
	}
	delete(d.failed, address)
	return conn, nil
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain := net.Dialer{Control: controlSocket(d.sendTimeout)}
	raw, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, &dialError{Address: address, Err: err}
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		// Bytes of an abandoned write must not be delivered late, so a close discards what the kernel still holds.
		if err := tcp.SetLinger(0); err != nil {
			raw.Close()
			return nil, &dialError{Address: address, Err: err}
		}
	}
	leased := &leasedConn{Conn: raw, guard: d.guard}
	if d.tls == nil {
		return &guardedConn{Conn: leased, raw: leased}, nil
	}
	secure, err := d.handshake(ctx, leased, address)
	if err != nil {
		raw.Close()
		return nil, &dialError{Address: address, TLS: true, Err: err}
	}
	return &guardedConn{Conn: secure, raw: leased}, nil
}

func (d *dialer) handshake(ctx context.Context, raw net.Conn, address string) (*tls.Conn, error) {
	config := d.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = hostOf(address)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if d.revocation != nil && !config.InsecureSkipVerify {
		if err := ocsp.Verify(ctx, conn.ConnectionState(), d.revocation); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// failures lists the last failure of each address that cannot be connected to, sorted. It also reports whether TLS caused one of
// them.
func (d *dialer) failures() (text string, tlsFailed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, address := range slices.Sorted(maps.Keys(d.failed)) {
		err := d.failed[address]
		if e, ok := errors.AsType[*dialError](err); ok && e.TLS {
			tlsFailed = true
		}
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "; "), tlsFailed
}

// silent reports whether every failed TLS handshake failed because no answer came.
func (d *dialer) silent() bool {
	return !d.anyFailed(func(e *dialError) bool { return e.TLS && !e.timedOut() })
}

// unanswered reports whether every failed TLS handshake failed because the server hung up or no answer came.
func (d *dialer) unanswered() bool {
	return !d.anyFailed(func(e *dialError) bool { return e.TLS && !e.timedOut() && !hungUp(e.Err) })
}

// unknown returns a host name that could not be resolved. Empty means none.
func (d *dialer) unknown() (name string) {
	d.anyFailed(func(e *dialError) bool {
		asked, ok := errors.AsType[*net.DNSError](e.Err)
		if ok {
			name = asked.Name
		}
		return ok
	})
	return name
}

// anyFailed reports whether like is true for one of the last failures.
func (d *dialer) anyFailed(like func(*dialError) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(d.failed)) {
		if e, ok := errors.AsType[*dialError](d.failed[address]); ok && like(e) {
			return true
		}
	}
	return false
}
