package mongodb

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/claim"
)

// message returns an OP_MSG with one command in its body.
func message(command bson.D, flags uint32) []byte {
	body := Document(command)
	m := make([]byte, 16, 21+len(body))
	binary.LittleEndian.PutUint32(m, uint32(21+len(body)))
	binary.LittleEndian.PutUint32(m[12:], opMsg)
	m = binary.LittleEndian.AppendUint32(m, flags)
	return append(append(m, 0), body...)
}

// large returns an insert with n bytes of data.
func large(n int) []byte {
	return message(bson.D{{Key: "insert", Value: "events.buckets"}, {Key: "documents", Value: make([]byte, n)}}, 0)
}

func TestGuardedMessages(t *testing.T) {
	query := message(bson.D{{Key: "isMaster", Value: 1}}, 0)
	binary.LittleEndian.PutUint32(query[12:], opQuery)
	compressed := message(bson.D{{Key: "hello", Value: 1}}, 0)
	binary.LittleEndian.PutUint32(compressed[12:], 2012)
	sequenceFirst := message(bson.D{{Key: "find", Value: "x"}}, 0)
	sequenceFirst[20] = 1
	for name, c := range map[string]struct {
		message []byte
		want    bool
	}{
		"insert":             {message(bson.D{{Key: "insert", Value: "events.buckets"}}, 0), true},
		"update":             {message(bson.D{{Key: "update", Value: "events.partitions"}}, 0), true},
		"delete":             {message(bson.D{{Key: "delete", Value: "events.buckets"}}, 0), true},
		"findAndModify":      {message(bson.D{{Key: "findAndModify", Value: "events.partitions"}}, 0), true},
		"bulkWrite":          {message(bson.D{{Key: "bulkWrite", Value: 1}}, 0), true},
		"write of options":   {message(bson.D{{Key: "insert", Value: "events.options"}}, 0), false},
		"find":               {message(bson.D{{Key: "find", Value: "events.buckets"}}, 0), false},
		"getMore":            {message(bson.D{{Key: "getMore", Value: int64(7)}, {Key: "collection", Value: "c"}}, 0), false},
		"hello":              {message(bson.D{{Key: "hello", Value: 1}}, 1<<16), false},
		"saslStart":          {message(bson.D{{Key: "saslStart", Value: 1}}, 0), false},
		"a field insert":     {message(bson.D{{Key: "find", Value: "c"}, {Key: "insert", Value: "x"}}, 0), false},
		"greeting":           {query, false},
		"compressed":         {compressed, true},
		"sequence first":     {sequenceFirst, true},
		"nothing":            {nil, true},
		"half a message":     {large(100)[:50], true},
		"cut in the command": {append(binary.LittleEndian.AppendUint32(nil, 27), message(bson.D{{Key: "find", Value: "x"}}, 0)[4:27]...), true},
	} {
		if got := guarded(c.message); got != c.want {
			t.Errorf("%s: guarded %v", name, got)
		}
	}
}

func FuzzGuarded(f *testing.F) {
	f.Add(message(bson.D{{Key: "insert", Value: "events.buckets"}}, 0))
	f.Add(message(bson.D{{Key: "hello", Value: 1}}, 0))
	f.Fuzz(func(t *testing.T, m []byte) {
		if len(m) >= 4 {
			binary.LittleEndian.PutUint32(m, uint32(len(m)))
		}
		guarded(m) // it must not panic
	})
}

// listening holds the options with which the server's side of a pair listens.
var listening net.ListenConfig

// pair is a guarded connection over loopback, and the server's side of it.
type pair struct {
	*guardedConn
	server   net.Conn
	received chan []byte // all received bytes, sent when the connection has ended
}

func dialPair(t *testing.T, secure bool, g guard) *pair {
	t.Helper()
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	serverTLS, clientTLS := certificates(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(accepted)
			return
		}
		if secure {
			conn = tls.Server(conn, serverTLS)
		}
		accepted <- conn
		if secure {
			_ = conn.(*tls.Conn).Handshake() // the client reports the error
		}
	}()
	d := &dialer{sendTimeout: 5 * time.Second, guard: g, failed: make(map[string]*dialError)}
	if secure {
		d.tls = clientTLS
	}
	conn, err := d.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{guardedConn: conn.(*guardedConn), server: <-accepted, received: make(chan []byte, 1)}
	t.Cleanup(func() { p.Close(); p.server.Close() })
	return p
}

// closeWrite closes the sending direction of the guarded side, with TLS's own message if it uses TLS.
func (p *pair) closeWrite() {
	if secure, ok := p.Conn.(*tls.Conn); ok {
		secure.CloseWrite()
		return
	}
	p.raw.Conn.(*net.TCPConn).CloseWrite()
}

// collect reads all bytes in the background until the connection ends.
func (p *pair) collect() {
	go func() {
		all, _ := io.ReadAll(p.server) // an abandoned write ends with a reset
		p.received <- all
	}()
}

func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: pool}
}

func eachTransport(t *testing.T, test func(t *testing.T, secure bool)) {
	t.Run("plain", func(t *testing.T) { test(t, false) })
	t.Run("tls", func(t *testing.T) { test(t, true) })
}

func TestGuardLetsWholeMessagesThroughUnderTheLease(t *testing.T) {
	eachTransport(t, func(t *testing.T, secure bool) {
		asked := 0
		p := dialPair(t, secure, guard{lease: func() bool { asked++; return true }})
		p.collect()
		want := large(300 << 10)
		if n, err := p.Write(want); n != len(want) || err != nil {
			t.Fatalf("%d of %d: %v", n, len(want), err)
		}
		if least := len(want) / pieceBytes; asked < least {
			t.Errorf("the lease was asked %d times, at least %d are needed", asked, least)
		}
		p.closeWrite()
		if got := <-p.received; !bytes.Equal(got, want) {
			t.Errorf("%d bytes came, %d were sent", len(got), len(want))
		}
	})
}

func TestGuardStopsAMessageInTheMiddle(t *testing.T) {
	eachTransport(t, func(t *testing.T, secure bool) {
		var left atomic.Int32
		left.Store(3)
		stopped := 0
		p := dialPair(t, secure, guard{lease: func() bool { return left.Add(-1) >= 0 }, stopped: func() { stopped++ }})
		p.collect()
		m := large(1 << 20)
		n, err := p.Write(m)
		if !errors.Is(err, claim.ErrLapsed) || n > 3*pieceBytes || stopped != 1 {
			t.Fatalf("%d bytes, %v, stopped %d times", n, err, stopped)
		}
		if got := <-p.received; len(got) >= len(m) {
			t.Errorf("the whole message came: %d bytes", len(got))
		}
		if _, err := p.Write(message(bson.D{{Key: "ping", Value: 1}}, 0)); err == nil {
			t.Error("the connection is still open")
		}
	})
}

func TestGuardLetsReadsThroughWithoutALease(t *testing.T) {
	eachTransport(t, func(t *testing.T, secure bool) {
		p := dialPair(t, secure, guard{lease: func() bool { return false }})
		p.collect()
		if _, err := p.Write(message(bson.D{{Key: "find", Value: "events.buckets"}}, 0)); err != nil {
			t.Error(err)
		}
		if _, err := p.Write(large(10)); !errors.Is(err, claim.ErrLapsed) {
			t.Errorf("an insert: %v", err)
		}
	})
}

func TestUnansweredWriteClosesItsConnection(t *testing.T) {
	eachTransport(t, func(t *testing.T, secure bool) {
		p := dialPair(t, secure, guard{})
		p.collect()
		answer := func(guardedWrite bool) error {
			m := message(bson.D{{Key: "ping", Value: 1}}, 0)
			if guardedWrite {
				m = large(10)
			}
			if _, err := p.Write(m); err != nil {
				return err
			}
			if err := p.SetReadDeadline(time.Now()); err != nil {
				return err
			}
			_, err := p.Read(make([]byte, 1))
			return err
		}
		if err := answer(false); err == nil {
			t.Fatal("a read without an answer succeeded")
		}
		select {
		case <-p.received:
			t.Fatal("a read that was not answered closed the connection")
		default:
		}
		if err := answer(true); err == nil {
			t.Fatal("a read without an answer succeeded")
		}
		<-p.received
	})
}

func TestDialRefusesAStrangersCertificate(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	serverTLS, _ := certificates(t)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = tls.Server(conn, serverTLS).Handshake() // the client refuses it
			conn.Close()
		}
	}()
	d := &dialer{tls: &tls.Config{RootCAs: x509.NewCertPool()}, failed: make(map[string]*dialError)}
	var failed *dialError
	if _, err := d.DialContext(t.Context(), "tcp", listener.Addr().String()); !errors.As(err, &failed) || !failed.TLS {
		t.Errorf("%v", err)
	}
	if failed := d.failures(); len(failed.inTLS()) == 0 {
		t.Errorf("%q", failed)
	}
}
