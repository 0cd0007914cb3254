package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl/plain"

	"waterwheel/internal/kafka/wire"
)

// scripted answers each request of one connection with the result of answer. A nil result closes the connection.
func scripted(t *testing.T, answer func(api protocol.ApiKey, frame []byte) []byte) net.Conn {
	t.Helper()
	client, broker := net.Pipe()
	go func() {
		defer broker.Close()
		for {
			frame, err := readFrame(broker)
			if err != nil {
				return
			}
			body := answer(protocol.ApiKey(binary.BigEndian.Uint16(frame[4:])), frame)
			if body == nil {
				return
			}
			head := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
			if _, err := broker.Write(append(append(head, frame[8:12]...), body...)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { client.Close() })
	return client
}

// authenticated returns a broker's answer to the last proof, for a session of lifetime milliseconds.
func authenticated(lifetime uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{0, 0, 0xff, 0xff, 0, 0, 0, 0}, lifetime)
}

// TestLoginIsRenewed checks this because a broker with connections.max.reauth.ms closes connections whose login is too old.
func TestLoginIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		network := scripted(t, func(api protocol.ApiKey, _ []byte) []byte {
			asked = append(asked, api.String())
			switch api {
			case protocol.SaslHandshake:
				return []byte{0, 0, 0, 0, 0, 0}
			case protocol.SaslAuthenticate:
				return authenticated(60_000)
			}
			return []byte{0, 0, 0, 0, 0, 0}
		})
		s := &session{mechanism: plain.Mechanism{Username: "u", Password: "p"}}
		c := &wire.Conn{Conn: network, Renew: s.renew}
		if err := s.prove(context.Background(), network); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := wire.Exchange(c, wire.Call{API: protocol.Heartbeat, Version: wire.Version(protocol.Heartbeat)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		const want = "SaslHandshake SaslAuthenticate Heartbeat Heartbeat SaslHandshake SaslAuthenticate Heartbeat"
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		network.Close()
	})
}

func TestLoginSurvivesHostileBrokers(t *testing.T) {
	handshake := []byte{0, 0, 0, 0, 0, 0}
	scram := func(text string) []byte {
		body := binary.BigEndian.AppendUint32([]byte{0, 0, 0xff, 0xff}, uint32(len(text)))
		return append(append(body, text...), make([]byte, 8)...)
	}
	for name, answers := range map[string][2][]byte{
		"mechanisms without end":  {{0, 0, 0x7f, 0xff, 0xff, 0xff}},
		"a mechanism without end": {{0, 33, 0, 0, 0, 1, 0x7f, 0xff}},
		"a challenge without end": {handshake, {0, 0, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff}},
		"work without end":        {handshake, scram("r=x,s=QSXCR+Q6sek8bf92,i=2000000000")},
		"work beyond numbers":     {handshake, scram("r=x,s=QSXCR+Q6sek8bf92,i=99999999999999999999999999")},
		"nonsense":                {handshake, scram("\xff\x00=,,,=")},
		"nothing":                 {handshake, {}},
	} {
		t.Run(name, func(t *testing.T) {
			network := scripted(t, func(api protocol.ApiKey, _ []byte) []byte {
				if api == protocol.SaslHandshake {
					return answers[0]
				}
				return answers[1]
			})
			mechanism, err := (&SASL{Mechanism: "SCRAM-SHA-256", Username: "u", Password: "p"}).mechanism()
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if taken := allocated(func() { err = (&session{mechanism: mechanism}).prove(t.Context(), network) }); taken > 1<<20 {
				t.Errorf("%d bytes were allocated", taken)
			}
			if err == nil || time.Since(start) > 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

func TestLoginSaysWhichMechanismsThereAre(t *testing.T) {
	body := binary.BigEndian.AppendUint32([]byte{0, 33}, 2)
	body = wire.AppendShortString(wire.AppendShortString(body, "PLAIN"), "SCRAM-SHA-512")
	network := scripted(t, func(protocol.ApiKey, []byte) []byte { return body })
	err := (&session{mechanism: plain.Mechanism{Username: "u", Password: "p"}}).prove(t.Context(), network)
	if err == nil || !strings.Contains(err.Error(), "the broker offers PLAIN, SCRAM-SHA-512") {
		t.Error(err)
	}
}

// TestLoginThatIsCutNamesItsSettings checks this because some brokers refuse a password by closing the connection.
func TestLoginThatIsCutNamesItsSettings(t *testing.T) {
	fake := startFake(t, &fakeBroker{password: "right", hangsUp: true})
	_, err := fake.open(t, func(o *Options) {
		o.Security.SASL = &SASL{Mechanism: "PLAIN", Username: "user", Password: "wrong"}
	})
	refused(t, err, StopProgram, fake.address(), `"user"`, "KAFKA_SASL_PASSWORD")
}

// TestAdvertisedAddressIsToldFromThoseOfTheSettings checks this because no setting here fixes an address that only the cluster
// names.
func TestAdvertisedAddressIsToldFromThoseOfTheSettings(t *testing.T) {
	const closed = "127.0.0.1:1"
	for given, want := range map[string]bool{"127.0.0.1:2": true, closed: false, "": false} {
		c := &connector{timeout: time.Second}
		if given != "" {
			c.bootstrap = []string{given}
		}
		_, err := c.dial(t.Context(), "tcp", closed)
		if err == nil || !strings.Contains(err.Error(), closed) || strings.Contains(err.Error(), "advertised.listeners") != want {
			t.Errorf("with %q in KAFKA_BROKERS: %v", given, err)
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// endpoint issues numbered tokens that are valid for an hour.
type endpoint struct {
	*httptest.Server
	asked  atomic.Int64
	answer func(w http.ResponseWriter, r *http.Request, n int64) bool // True means that it has answered.
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := e.asked.Add(1)
		if e.answer != nil && e.answer(w, r, n) {
			return
		}
		user, secret, _ := r.BasicAuth()
		if r.FormValue("grant_type") != "client_credentials" || user != "client" || secret != "geheim" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error": "invalid_client", "error_description": "no such client"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "t%d-%s-%s", "token_type": "Bearer", "expires_in": 3600}`, n, r.FormValue("scope"), r.FormValue("audience"))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) mechanism(t *testing.T, change func(*OAuth)) *bearer {
	t.Helper()
	o := &OAuth{
		TokenURL: e.URL, ClientID: "client", ClientSecret: "geheim", Scopes: []string{"a", "b"}, Parameters: map[string]string{"audience": "kafka"},
		Extensions: map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-1"},
	}
	if change != nil {
		change(o)
	}
	b, err := o.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// proof returns the first message of a login.
func proof(t *testing.T, b *bearer) string {
	t.Helper()
	_, first, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(first)
}

// TestATokenIsSharedUntilItIsOld checks that connections log in with one token, and with a new one after four fifths of its
// lifetime.
func TestATokenIsSharedUntilItIsOld(t *testing.T) {
	e := newEndpoint(t)
	b := e.mechanism(t, nil)
	now := time.Now()
	b.now = func() time.Time { return now }
	e.answer = func(w http.ResponseWriter, r *http.Request, n int64) bool { // a token contains no blank
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": "t%d-%s-%s", "token_type": "Bearer", "expires_in": 3600}`, n, strings.ReplaceAll(r.FormValue("scope"), " ", "+"), r.FormValue("audience"))
		return true
	}
	want := func(n int) string {
		return fmt.Sprintf("n,,\x01auth=Bearer t%d-a+b-kafka\x01identityPoolId=pool-1\x01logicalCluster=lkc-1\x01\x01", n)
	}
	for _, c := range []struct {
		later time.Duration
		token int
	}{{0, 1}, {0, 1}, {47 * time.Minute, 1}, {2 * time.Minute, 2}, {time.Minute, 2}, {48 * time.Minute, 3}} {
		now = now.Add(c.later)
		if got := proof(t, b); got != want(c.token) {
			t.Errorf("after %v more: %q, want %q", c.later, got, want(c.token))
		}
	}
}

// TestARefusedTokenIsNotUsedAgain checks that the broker's reason is reported, and that the next login requests a new token.
func TestARefusedTokenIsNotUsedAgain(t *testing.T) {
	e := newEndpoint(t)
	b := e.mechanism(t, func(o *OAuth) { o.Scopes, o.Extensions = nil, nil })
	login, first, err := b.Start(t.Context())
	if err != nil || string(first) != "n,,\x01auth=Bearer t1--kafka\x01\x01" {
		t.Fatalf("%q, %v", first, err)
	}
	if done, _, err := login.Next(t.Context(), nil); !done || err != nil {
		t.Errorf("a token that is taken: %v, %v", done, err)
	}
	_, _, err = login.Next(t.Context(), []byte(`{"status":"invalid_token"}`))
	if !errors.Is(err, kafkago.SASLAuthenticationFailed) || !strings.Contains(err.Error(), "invalid_token") {
		t.Errorf("a token that is refused: %v", err)
	}
	if got := proof(t, b); !strings.Contains(got, "t2-") {
		t.Errorf("the next login has %q", got)
	}
}

// TestWhatTheEndpointSaysIsTold checks that temporary errors are retried, that others name their settings, and that no error
// contains the secret.
func TestWhatTheEndpointSaysIsTold(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int64) bool { w.WriteHeader(code); return true }
	}
	says := func(text string) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
			return true
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, int64) bool
		change func(*OAuth)
		is     error
		part   string
	}{
		"wrong secret": {nil, func(o *OAuth) { o.ClientSecret = "geheimer" }, errTokenRefused, "invalid_client no such client: check KAFKA_OAUTH_CLIENT_ID"},
		"no endpoint":  {nil, func(o *OAuth) { o.TokenURL = "http://127.0.0.1:1/" }, errTokenAway, "requesting a token from KAFKA_OAUTH_TOKEN_URL (http://127.0.0.1:1/)"},
		"not there":    {status(http.StatusNotFound), nil, errTokenRefused, "404"},
		"overloaded":   {status(http.StatusTooManyRequests), nil, errTokenAway, "429"},
		"down":         {status(http.StatusBadGateway), nil, errTokenAway, "502"},
		"no JSON":      {says("<html>"), nil, errTokenAway, "KAFKA_OAUTH_TOKEN_URL"},
		"no token":     {says("{}"), nil, errTokenAway, "KAFKA_OAUTH_TOKEN_URL"},
		"odd token":    {says(`{"access_token": "a\u0001b"}`), nil, errTokenRefused, "characters"},
	} {
		e := newEndpoint(t)
		e.answer = c.answer
		_, _, err := e.mechanism(t, c.change).Start(t.Context())
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, want %v with %q", name, err, c.is, c.part)
		}
	}
}

// TestATokenOfAFileIsReadForEachLogin checks this because another program keeps the file current.
func TestATokenOfAFileIsReadForEachLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	b, err := (&OAuth{TokenFile: file}).mechanism()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Start(t.Context()); !errors.Is(err, errTokenAway) || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	for content, want := range map[string]string{"one\n": "one", " two ": "two", "": "", "a b": "", strings.Repeat("x", maxTokenFile+1): ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, first, err := b.Start(t.Context())
		if got := string(first); want != "" && got != "n,,\x01auth=Bearer "+want+"\x01\x01" || (want == "") != errors.Is(err, errTokenAway) {
			t.Errorf("%.20q: %q, %v", content, got, err)
		}
	}
}

func TestOAuthRefusesWhatKafkaWould(t *testing.T) {
	for _, extensions := range []map[string]string{{"auth": "x"}, {"a b": "x"}, {"a": "x\x01"}, {"a": ""}} {
		if _, err := (&OAuth{TokenFile: "/t", Extensions: extensions}).mechanism(); err == nil || !strings.Contains(err.Error(), "KAFKA_OAUTH_EXTENSIONS") {
			t.Errorf("%v: %v", extensions, err)
		}
	}
	for _, file := range []string{"/nothing/here", os.Args[0]} {
		if _, err := (&OAuth{CAFile: file}).mechanism(); err == nil || !strings.Contains(err.Error(), "KAFKA_OAUTH_CA_FILE") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestTheEndpointIsCheckedAgainstItsAuthority checks that an endpoint of an unknown authority gets no secret.
func TestTheEndpointIsCheckedAgainstItsAuthority(t *testing.T) {
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	server.Config.ErrorLog = nil
	b, err := (&OAuth{TokenURL: server.URL, ClientID: "client", ClientSecret: "geheim"}).mechanism()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, _, err := b.Start(ctx); !errors.Is(err, errTokenAway) || !strings.Contains(err.Error(), "certificate") || asked {
		t.Errorf("%v, asked: %v", err, asked)
	}
}
