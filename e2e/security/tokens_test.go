package security

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waterwheel/e2e/harness"
)

// These names are in the tokens.
const (
	tokenIssuer   = "https://id.example"
	tokenAudience = "kafka"
	tokenKey      = "key-1"
)

// signer signs tokens. The brokers read its public key from keys.json.
type signer struct{ key *rsa.PrivateKey }

// newSigner makes a key pair and writes the public key for the brokers.
func newSigner(f files) (*signer, error) {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": tokenKey,
		"n": encoded(key.N.Bytes()), "e": encoded(big.NewInt(int64(key.E)).Bytes()),
	}}})
	if err != nil {
		return nil, err
	}
	return &signer{key}, os.WriteFile(f.path("keys.json"), keys, 0o600)
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// token returns a JWT for a user, signed with RS256.
func (s *signer) token(user, audience string, lasts time.Duration) (string, error) {
	now := time.Now()
	head, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": tokenKey})
	claims, err2 := json.Marshal(map[string]any{
		"iss": tokenIssuer, "sub": user, "aud": audience, "scope": "kafka", "iat": now.Unix(), "exp": now.Add(lasts).Unix(),
	})
	text := encoded(head) + "." + encoded(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err3 := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	return text + "." + encoded(signature), errors.Join(err, err2, err3)
}

// endpoint gives tokens to the client "writer".
type endpoint struct {
	*httptest.Server
	asked atomic.Int64
}

func newEndpoint(t *testing.T, lasts time.Duration) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		user, secret, _ := r.BasicAuth()
		if secret != password {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error": "invalid_client"}`)
			return
		}
		token, err := world.signer.token(user, r.FormValue("audience"), lasts)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": %d}`, token, int(lasts.Seconds()))
	}))
	t.Cleanup(e.Close)
	return e
}

// bearing returns the settings of a login with tokens from an endpoint.
func bearing(s harness.Settings, endpoint, user string) harness.Settings {
	return s.With("KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_OAUTH_TOKEN_URL", endpoint, "KAFKA_OAUTH_CLIENT_ID", user,
		"KAFKA_OAUTH_CLIENT_SECRET", password, "KAFKA_OAUTH_PARAMETERS", "audience="+tokenAudience)
}

// TestTokensWork checks tokens from an endpoint and from a file.
func TestTokensWork(t *testing.T) {
	needsBroker(t)
	t.Run("of an endpoint", func(t *testing.T) {
		t.Parallel()
		topic := newTopic(t)
		flow{t, topic, bearing(at(tokens, topic), newEndpoint(t, time.Hour).URL, "writer")}.test()
	})
	t.Run("of a file", func(t *testing.T) {
		t.Parallel()
		token, err := world.signer.token("writer", tokenAudience, time.Hour)
		file := filepath.Join(t.TempDir(), "token")
		if err = errors.Join(err, os.WriteFile(file, []byte(token+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		topic := newTopic(t)
		flow{t, topic, at(tokens, topic).With("KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_OAUTH_TOKEN_FILE", file)}.test()
	})
}

// TestTokensAreRenewed checks that the consumer continues without an error when each token lasts five seconds and the broker ends
// a login when its token expires.
func TestTokensAreRenewed(t *testing.T) {
	needsBroker(t)
	topic, e := newTopic(t), newEndpoint(t, 5*time.Second)
	f := flow{t, topic, bearing(at(tokens, topic), e.URL, "writer")}
	if log := f.trickle(12); strings.Contains(log, "EOF") || strings.Contains(log, "level=ERROR") || strings.Contains(log, "Kafka is failing") {
		t.Errorf("connections were cut:\n%s", log)
	}
	if n := e.asked.Load(); n < 3 {
		t.Errorf("the endpoint was asked %d times within eleven seconds, for tokens of five", n)
	}
}

// TestWrongTokensAreNamed checks that a refused client gets a message with the reason.
func TestWrongTokensAreNamed(t *testing.T) {
	needsBroker(t)
	right := newEndpoint(t, time.Hour).URL
	for _, c := range []wrong{
		{"the wrong secret", bearing(at(tokens, guarded), right, "writer").With("KAFKA_OAUTH_CLIENT_SECRET", wrongPassword), []string{"invalid_client", "KAFKA_OAUTH_CLIENT_SECRET", right}},
		{"the wrong audience", bearing(at(tokens, guarded), right, "writer").With("KAFKA_OAUTH_PARAMETERS", "audience=mongodb"), []string{"the broker refuses the token", "audience"}},
		{"a token that is over", bearing(at(tokens, guarded), newEndpoint(t, -time.Hour).URL, "writer"), []string{"the broker refuses the token", "invalid_token"}},
		{"a listener without tokens", bearing(at(login, guarded), right, "writer"), []string{"KAFKA_SASL_MECHANISM", "SCRAM-SHA-512"}},
	} {
		t.Run(c.name, c.test)
	}
}

// TestAnEndpointThatIsAwayIsWaitedFor checks that a start waits for the endpoint as it waits for a broker.
func TestAnEndpointThatIsAwayIsWaitedFor(t *testing.T) {
	needsBroker(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	topic := newTopic(t)
	f := flow{t, topic, bearing(at(tokens, topic), "http://"+address, "writer")}
	f.produce(10, 1)
	c := f.start()
	f.awaitLog(c, "requesting a token from KAFKA_OAUTH_TOKEN_URL")
	e := newEndpoint(t, time.Hour)
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skipf("another program has taken the port meanwhile: %v", err)
	}
	late := &http.Server{Handler: e.Config.Handler}
	go func() { _ = late.Serve(listener) }()
	t.Cleanup(func() { late.Close() })
	f.await(c, 10, 1)
	f.stop(c)
}
