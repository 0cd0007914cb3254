package kafka

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// refused checks that Open has failed with an error of the class that contains all parts.
func refused(t *testing.T, err error, class Class, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("opened")
	}
	if got := Classify(err); got != class {
		t.Errorf("class %d, want %d", got, class)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestOpenRefusesSettingsThatCannotWork(t *testing.T) {
	_, err := Open(t.Context(), tested(Options{Brokers: []string{"localhost"}, FetchBytes: -1, FetchWait: time.Hour}), prometheus.NewRegistry())
	refused(t, err, StopProgram, "KAFKA_BROKERS", `"localhost"`, "KAFKA_FETCH_BYTES", "KAFKA_FETCH_WAIT")
	_, err = Open(t.Context(), Options{}, prometheus.NewRegistry())
	refused(t, err, StopProgram, "KAFKA_BROKERS")
	const secret = "pass\x07word"
	for _, sasl := range []SASL{{Mechanism: "PLAIN"}, {Mechanism: "GSSAPI", Username: "u", Password: "p"}, {Mechanism: "SCRAM-SHA-256", Username: "u", Password: secret}} {
		options := tested(Options{Brokers: []string{"127.0.0.1:1"}, Security: Security{SASL: &sasl}})
		_, err = Open(t.Context(), options, prometheus.NewRegistry())
		refused(t, err, StopProgram, "KAFKA_SASL")
		if sasl.Password == secret && strings.Contains(err.Error(), secret) {
			t.Errorf("%q shows the password", err)
		}
	}
}

func TestOpenNamesBrokersThatCannotBeReached(t *testing.T) {
	closed := listen(t)
	closed.Close()
	_, err := Open(t.Context(), tested(Options{Brokers: []string{closed.Addr().String()}}), prometheus.NewRegistry())
	refused(t, err, Retry, "no broker of KAFKA_BROKERS can be reached ("+closed.Addr().String()+": connect: connection refused)")
}

// TestOpenSaysWhatNameIsNotKnown checks this because the name may become known when the broker starts.
func TestOpenSaysWhatNameIsNotKnown(t *testing.T) {
	_, err := Open(t.Context(), tested(Options{Brokers: []string{"no-such-host.invalid:9092"}}), prometheus.NewRegistry())
	refused(t, err, Retry, "DNS does not know no-such-host.invalid", "no broker of KAFKA_BROKERS can be reached (no-such-host.invalid:9092: ")
}

func TestProbeTriesTheNextBroker(t *testing.T) {
	closed, silent := listen(t), listen(t)
	closed.Close()
	defer silent.Close()
	fake := startFake(t, &fakeBroker{})
	options := tested(Options{Brokers: []string{closed.Addr().String(), silent.Addr().String(), fake.address()}})
	if err := quickConnector(t).probe(t.Context(), options.Brokers); err != nil {
		t.Error(err)
	}
}

func TestProbePassesOverABrokerThatHangsUp(t *testing.T) {
	fake := startFake(t, &fakeBroker{})
	options := tested(Options{Brokers: []string{hangingUp(t, func(net.Conn) {}), fake.address()}})
	if err := quickConnector(t).probe(t.Context(), options.Brokers); err != nil {
		t.Error(err)
	}
}

// TestABrokerThatHangsUpAtOnceIsAway covers a load balancer in front of a broker that is down. The error hints that TLS may be
// required.
func TestABrokerThatHangsUpAtOnceIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		security Security
		ends     func(net.Conn)
		says     []string
	}{
		"at the connection":            {Security{}, func(net.Conn) {}, []string{"closes the connection immediately", "requires TLS", "KAFKA_SECURITY", "KAFKA_BROKERS"}},
		"at the connection, with SASL": {Security{SASL: &SASL{Mechanism: "PLAIN", Username: "u", Password: "p"}}, func(net.Conn) {}, []string{"closes the connection immediately", "requires TLS"}},
		"at the connection, with TLS":  {Security{TLS: &TLS{}}, func(net.Conn) {}, []string{"closes the connection in the TLS handshake", "does not speak TLS", "KAFKA_SECURITY"}},
		"after the first bytes":        {Security{}, func(c net.Conn) { _, _ = c.Read(make([]byte, 4)) }, []string{"closes the connection immediately", "requires TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			connector, err := c.security.connector(nil)
			if err != nil {
				t.Fatal(err)
			}
			address := hangingUp(t, c.ends)
			refused(t, connector.probe(t.Context(), []string{address}), Retry, append(c.says, address)...)
		})
	}
}

// hangingUp returns the address of a listener that closes each connection after the function has run.
func hangingUp(t *testing.T, after func(net.Conn)) string {
	t.Helper()
	hanging := listen(t)
	var serving sync.WaitGroup
	t.Cleanup(func() { hanging.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := hanging.Accept()
			if err != nil {
				return
			}
			after(c)
			c.Close()
		}
	})
	return hanging.Addr().String()
}

// quickConnector returns a connector with short timeouts for silent listeners.
func quickConnector(t *testing.T) *connector {
	t.Helper()
	connector, err := Security{}.connector(nil)
	if err != nil {
		t.Fatal(err)
	}
	connector.timeout = 100 * time.Millisecond
	return connector
}

func TestOpenRefusesBrokersBeforeTopicIDs(t *testing.T) {
	_, err := startFake(t, &fakeBroker{newestFetch: 12}).open(t, nil)
	refused(t, err, StopProgram, "Kafka 3.1")
}

// TestOpenNamesTheControllersPort covers the port of a controller, which answers like Kafka and is not an old broker.
func TestOpenNamesTheControllersPort(t *testing.T) {
	_, err := startFake(t, &fakeBroker{controller: true}).open(t, nil)
	refused(t, err, StopProgram, "is a listener of a KRaft controller: set KAFKA_BROKERS to a listener of a broker")
	if strings.Contains(err.Error(), "too old") {
		t.Error(err)
	}
}

func TestOpenSaysWhatIsNoKafka(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := Open(t.Context(), tested(Options{Brokers: []string{server.Listener.Addr().String()}}), prometheus.NewRegistry())
	refused(t, err, StopProgram, "does not answer like a Kafka broker", "KAFKA_BROKERS")
}

func TestOpenGivesUpOnASilentListener(t *testing.T) {
	silent := listen(t)
	defer silent.Close()
	options := tested(Options{Brokers: []string{silent.Addr().String()}})
	refused(t, quickConnector(t).probe(t.Context(), options.Brokers), Retry, "no answer within 100ms", "KAFKA_SECURITY")
}

func TestOpenWithSASL(t *testing.T) {
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, password: "right"})
	with := func(mechanism, password string) error {
		_, err := fake.open(t, func(o *Options) {
			o.Security.SASL = &SASL{Mechanism: mechanism, Username: "user", Password: password}
		})
		return err
	}
	if err := with("PLAIN", "right"); err != nil {
		t.Error(err)
	}
	refused(t, with("PLAIN", "wrong"), StopProgram, "[58]", "KAFKA_SASL_PASSWORD")
	refused(t, with("SCRAM-SHA-512", "right"), StopProgram, "[33]", "KAFKA_SASL_MECHANISM")
	_, err := fake.open(t, nil)
	refused(t, err, StopProgram, "requires SASL", "KAFKA_SECURITY")

	open := startFake(t, &fakeBroker{})
	_, err = open.open(t, func(o *Options) { o.Security.SASL = &SASL{Mechanism: "PLAIN", Username: "user", Password: "p"} })
	refused(t, err, StopProgram, "[34]", "does not accept SASL")
}

func TestOpenWithTLS(t *testing.T) {
	authority := newAuthority(t)
	files := authority.files(t, "broker")
	fake := startFake(t, &fakeBroker{
		topics:   []string{"events"},
		listener: tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{authority.issue(t, "broker")}}),
		fetch:    fetchSpec{id: fakeID, set: plainBatch(0, 1)}.encode,
	})
	with := func(settings *TLS) (*Client, error) {
		return fake.open(t, func(o *Options) { o.Security.TLS = settings })
	}
	client, err := with(&TLS{CAFile: files.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	if batch, err := fetch(t.Context(), client, "events", fakeID, 0); err != nil || len(batch.Records) != 1 {
		t.Error(batch, err)
	}
	if _, err := with(&TLS{Insecure: true}); err != nil {
		t.Error(err)
	}
	_, err = with(&TLS{})
	refused(t, err, StopProgram, "KAFKA_TLS_CA_FILE")
	_, err = with(&TLS{CAFile: files.CAFile, ServerName: "other.example"})
	refused(t, err, StopProgram, "KAFKA_TLS_SERVER_NAME", "other.example")
	_, err = with(nil)
	refused(t, err, Retry, "requires TLS", "KAFKA_SECURITY")

	strict := startFake(t, &fakeBroker{listener: tls.NewListener(listen(t), &tls.Config{
		Certificates: []tls.Certificate{authority.issue(t, "broker")}, ClientAuth: tls.RequireAnyClientCert,
	})})
	_, err = strict.open(t, func(o *Options) { o.Security.TLS = &TLS{Insecure: true} })
	refused(t, err, StopProgram, "KAFKA_TLS_CERT_FILE")

	plaintext := startFake(t, &fakeBroker{})
	_, err = plaintext.open(t, func(o *Options) { o.Security.TLS = &TLS{Insecure: true} })
	refused(t, err, Retry, "does not speak TLS", "KAFKA_SECURITY")
}

// TestWriterIsSecured checks that the connections of a writer are secured the same way.
func TestWriterIsSecured(t *testing.T) {
	authority := newAuthority(t)
	fake := startFake(t, &fakeBroker{
		topics:   []string{"letters"},
		password: "right",
		listener: tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{authority.issue(t, "broker")}}),
	})
	client, err := fake.open(t, func(o *Options) {
		o.Security.TLS = &TLS{CAFile: authority.files(t, "client").CAFile}
		o.Security.SASL = &SASL{Mechanism: "PLAIN", Username: "user", Password: "right"}
	})
	if err != nil {
		t.Fatal(err)
	}
	writer := client.Writer("letters")
	defer writer.Close()
	if _, err := writer.Partitions(t.Context(), "letters"); err != nil {
		t.Error(err)
	}
}

func TestDialClosesWhatFailsItsHandshake(t *testing.T) {
	listener := listen(t)
	defer listener.Close()
	closed := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, err = conn.Write([]byte("SSH-2.0-not a TLS server\r\n"))
		}
		if err == nil {
			_, err = io.Copy(io.Discard, conn) // ends when the client closes
		}
		closed <- err
	}()
	connector, err := Security{TLS: &TLS{Insecure: true}}.connector(nil)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := connector.dial(t.Context(), "tcp", listener.Addr().String()); err == nil {
		conn.Close()
		t.Fatal("the handshake with a server that speaks no TLS went well")
	}
	if err := <-closed; err != nil && !strings.Contains(err.Error(), net.ErrClosed.Error()) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	fake := startFake(t, &fakeBroker{topics: []string{"events"}, fetch: fetchSpec{id: fakeID}.encode})
	before := runtime.NumGoroutine() // the fake's own
	client, err := fake.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t.Context(), client, "events", fakeID, 0); err != nil {
		t.Fatal(err)
	}
	client.Close()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}
