package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
	"waterwheel/e2e/harness/proxy"
)

// stops is how often a consumer is stopped with a half-sent bulk, with and without TLS. For twenty times:
//
//	go test -count=1 -parallel 4 -run TestHalfSentBulkStaysHalf . -stops 20
var stops = flag.Int("stops", 1, "how often a consumer is stopped in the middle of a bulk")

// TestHalfSentBulkStaysHalf stops a process while a part of a bulk is in flight on a slow connection. The connection becomes
// fast, another consumer takes over and stores everything, and then the process continues. The rest of the bulk must not follow,
// because its measurements would be doubled.
func TestHalfSentBulkStaysHalf(t *testing.T) {
	for _, transport := range []string{"plain", "tls"} {
		for n := range *stops {
			t.Run(fmt.Sprintf("%s-%d", transport, n+1), func(t *testing.T) {
				t.Parallel()
				for try := 1; !halfSent(t, transport == "tls"); try++ {
					if try == 3 {
						t.Fatal("the kernel took the whole bulk each time: nothing was tested")
					}
				}
			})
		}
	}
}

// halfSent returns false if the process could not be stopped in the middle of a bulk.
func halfSent(t *testing.T, secure bool) bool {
	const series = 50
	s := newStream(t, 1).inBuckets()
	w := newSlowWay(t, secure)
	// The first consumer writes new buckets, and the second one extends existing ones, so that no _id prevents doubled
	// measurements.
	first := s.start("MONGODB_URI", w.uri, "BUCKET_REOPEN", "false", "BUCKET_DELTA_MAX", "1", "FLUSH_INTERVAL", "2s")
	s.sendPlain(series, series)
	s.awaitCommitted(first, 30*time.Second)

	if n, err := setSendBuffers(first, w.link.Address(), 0); n == 0 {
		t.Skipf("the buffers of a process's connections cannot be made small here: %v", err)
	}
	w.link.Choke(20 << 10)
	s.sendMore(2*series, series)
	bulk := w.awaitHalf(t, first)
	s.signal(first, syscall.SIGSTOP)
	if err := w.link.Restore(); err != nil {
		t.Fatal(err)
	}
	had := w.awaitQuiet(t, bulk) // the kernel still sends its buffers after the process is stopped
	if had.Received == had.Length || !had.Ended.IsZero() {
		first.Kill()
		return false
	}
	second := s.start("FLUSH_INTERVAL", "1s")
	s.awaitCommitted(second, time.Minute)

	if _, err := setSendBuffers(first, w.link.Address(), 1<<20); err != nil { // one system call could send the rest
		t.Fatal(err)
	}
	s.signal(first, syscall.SIGCONT)
	after := w.awaitEnd(t, bulk)
	if t.Logf("%d of %d bytes were on their way, then %d", had.Received, had.Length, after.Received); after.Received == after.Length {
		t.Error("the rest was sent after the lease")
	}
	s.awaitStored(second, time.Second)
	s.terminate(first)
	s.terminate(second)
	s.verify(t, 3*series)
	return true
}

// sendMore produces larger and later records than sendPlain.
func (s *stream) sendMore(n, series int) {
	s.t.Helper()
	first := time.Now().Add(-time.Hour).UnixMilli() // within the span of the existing buckets
	made := make([]events.Event, n)
	for i := range made {
		host := i % series
		made[i] = events.Event{
			Key: fmt.Append(nil, host),
			Value: fmt.Appendf(nil, `{"time":%d,"meta":{"host":%d},"load":1.5,"text":%q}`,
				first+int64(i), host, strings.Repeat("x", 190)),
		}
	}
	if err := s.producer.Send(within(s.t, 30*time.Second), made...); err != nil {
		s.t.Fatal(err)
	}
}

// slowWay connects the stopped consumer to MongoDB. It is a link that buffers little, and a tap after it that sees the passing
// bytes.
type slowWay struct {
	uri  string
	tap  *tap
	link *proxy.Link
}

func newSlowWay(t *testing.T, secure bool) *slowWay {
	t.Helper()
	uri, err := url.Parse(world.servers.MongoURI)
	if err != nil {
		t.Fatal(err)
	}
	address, err := harness.NewLinkAddress()
	if err != nil {
		t.Fatal(err)
	}
	w := &slowWay{}
	query := uri.Query()
	query.Set("directConnection", "true") // without it the driver would connect to the address that the server names
	var server *tls.Config
	if secure {
		var authority string
		server, authority = certified(t)
		query.Set("tls", "true")
		query.Set("tlsCAFile", authority)
	}
	if w.tap, err = newTap(uri.Host, server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.tap.Close)
	if w.link, err = proxy.NewLinkOf(net.ListenConfig{Control: narrow}, address, w.tap.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.link.Close)
	uri.Host, uri.RawQuery, uri.Path = address, query.Encode(), "/"
	w.uri = uri.String()
	return w
}

// certified returns a certificate for the loopback address, and the file that makes clients trust it.
func certified(t *testing.T) (server *tls.Config, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tap"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	authority = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, authority
}

// awaitHalf waits until a large message has begun and its sender is blocked. It returns when the message began.
func (w *slowWay) awaitHalf(t *testing.T, c *harness.Consumer) (began time.Time) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := setSendBuffers(c, w.link.Address(), 0); err != nil { // also of new connections
			t.Fatal(err)
		}
		for _, m := range w.tap.Writes() {
			if m.Length > 40<<10 {
				time.Sleep(300 * time.Millisecond) // until the kernel accepts no more
				return m.Began
			}
		}
	}
	t.Fatal("no large bulk was sent")
	return began
}

// awaitQuiet waits until no more bytes of a message arrive.
func (w *slowWay) awaitQuiet(t *testing.T, began time.Time) tappedWrite {
	t.Helper()
	m, since := w.message(t, began), time.Now()
	for time.Since(since) < 300*time.Millisecond {
		time.Sleep(10 * time.Millisecond)
		if now := w.message(t, began); now.Received > m.Received {
			m, since = now, time.Now()
		}
	}
	return m
}

// awaitEnd waits until a message is complete or its connection has ended.
func (w *slowWay) awaitEnd(t *testing.T, began time.Time) tappedWrite {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m := w.message(t, began); m.Received == m.Length || !m.Ended.IsZero() {
			return m
		}
	}
	t.Fatalf("the message neither goes on nor ends: %+v", w.message(t, began))
	return tappedWrite{}
}

func (w *slowWay) message(t *testing.T, began time.Time) tappedWrite {
	t.Helper()
	for _, m := range w.tap.Writes() {
		if m.Began.Equal(began) {
			return m
		}
	}
	t.Fatal("a message that began is not there any more")
	return tappedWrite{}
}
