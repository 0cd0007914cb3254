package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"waterwheel/internal/kafka/wire"
)

const (
	saslHandshakeVersion    = 1 // the first version whose login messages are requests of Kafka's protocol
	saslAuthenticateVersion = 1 // the first version that tells how long a session lasts
	// leastRenewal is the least time between two logins on one connection. Kafka ends a connection that logs in twice within a
	// second.
	leastRenewal = 1100 * time.Millisecond
	// maxIterations bounds the rounds of hashing that a broker may ask of SCRAM. Kafka allows 16,384.
	maxIterations = 1 << 20
)

// session is the login of one connection.
type session struct {
	mechanism sasl.Mechanism
	user      string // for messages
	// renewAt is when the connection must log in again. Zero means never.
	renewAt time.Time
}

// prove logs in. ctx only tells the broker's name to mechanisms that need it.
func (s *session) prove(ctx context.Context, rw io.ReadWriter) error {
	if err := s.converse(ctx, rw); err != nil {
		return fmt.Errorf("logging in as %q with %s: %w", s.user, s.mechanism.Name(), err)
	}
	return nil
}

func (s *session) converse(ctx context.Context, rw io.ReadWriter) error {
	if err := s.choose(rw); err != nil {
		return err
	}
	machine, proof, err := s.mechanism.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting the login: %w", err)
	}
	for done := false; !done; {
		challenge, err := s.authenticate(rw, proof)
		if err != nil {
			return err
		}
		if err := bearable(challenge); err != nil {
			return err
		}
		done, proof, err = machine.Next(ctx, challenge)
		if errors.Is(err, kafkago.SASLAuthenticationFailed) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%w: the broker's SASL message is not valid: %w", wire.ErrMalformed, err)
		}
	}
	return nil
}

// choose tells the broker the mechanism.
func (s *session) choose(rw io.ReadWriter) error {
	body := wire.AppendShortString(nil, s.mechanism.Name())
	answer, err := wire.Exchange(rw, wire.Call{API: protocol.SaslHandshake, Version: saslHandshakeVersion, Body: body})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	r := wire.NewReader(answer)
	code := kafkago.Error(r.Int16())
	var offered []string
	for range r.Times(r.LongLen()) {
		offered = append(offered, r.ShortString())
	}
	switch {
	case r.Err() != nil:
		return fmt.Errorf("%w: %w", errNoAnswer, r.Err())
	case code == kafkago.UnsupportedSASLMechanism:
		return fmt.Errorf("%w (the broker offers %s)", code, strings.Join(offered, ", "))
	case code != 0:
		return code
	}
	return nil
}

// authenticate sends one proof and returns the broker's challenge.
func (s *session) authenticate(rw io.ReadWriter, proof []byte) ([]byte, error) {
	body := wire.AppendLongBytes(nil, proof)
	answer, err := wire.Exchange(rw, wire.Call{API: protocol.SaslAuthenticate, Version: saslAuthenticateVersion, Body: body})
	if hungUp(err) {
		return nil, fmt.Errorf("%w: %w", errLoginCut, err)
	}
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(answer)
	code, _ := kafkago.Error(r.Int16()), r.ShortString() // its message adds nothing to the code
	challenge := r.LongBytes()
	lifetime := time.Duration(r.Int64()) * time.Millisecond
	if r.Err() != nil {
		return nil, r.Err()
	}
	if code != 0 {
		return nil, code
	}
	if lifetime > 0 { // log in again before the end, and not all connections at once
		s.renewAt = time.Now().Add(max(leastRenewal, lifetime/100*80+rand.N(lifetime/100*10+1)))
	}
	return challenge, nil
}

// renew logs in again when its time has come. A broker with connections.max.reauth.ms ends a connection at the first request
// after that time.
func (s *session) renew(conn net.Conn) error {
	if s.renewAt.IsZero() || time.Now().Before(s.renewAt) {
		return nil
	}
	s.renewAt = time.Time{}
	return s.prove(context.Background(), conn)
}

// bearable refuses a SCRAM challenge with too many rounds of hashing.
func bearable(challenge []byte) error {
	for attribute := range strings.SplitSeq(string(challenge), ",") {
		text, ok := strings.CutPrefix(attribute, "i=")
		if n, err := strconv.Atoi(text); ok && (err != nil || n > maxIterations) {
			return fmt.Errorf("%w: the broker requires %.20s SCRAM iterations, but at most %d are allowed", wire.ErrMalformed, text, maxIterations)
		}
	}
	return nil
}

// OAuth is the source of tokens for SASL OAUTHBEARER (RFC 7628). Tokens come from an endpoint for a client with a secret (client
// credentials, RFC 6749 section 4.4), or from a file that another program keeps current.
type OAuth struct {
	TokenURL               string
	ClientID, ClientSecret string
	// Scopes are the scopes of the token. Parameters are further parameters for the endpoint, such as audience.
	Scopes     []string
	Parameters map[string]string
	// CAFile holds the PEM certificates that verify the endpoint. Empty means the system's. It is read at the start.
	CAFile string
	// TokenFile holds a token and replaces the endpoint. It is read for each login.
	TokenFile string
	// Extensions go to the broker with the token (KIP-342), such as logicalCluster.
	Extensions map[string]string
}

// oauthBearer is the name of the mechanism.
const oauthBearer = "OAUTHBEARER"

// tokenTimeout bounds asking for a token. It is less than the time for opening a connection.
const tokenTimeout = 4 * time.Second

// leastLeft is how long a token must still last to serve another login. A broker ends a login with its token.
const leastLeft = 30 * time.Second

// maxTokenFile bounds the bytes of a token file. Kafka takes 512 KiB for a login.
const maxTokenFile = 256 << 10

var (
	// errTokenAway means that the token's source gives no token now.
	errTokenAway = errors.New("no token is available")
	// errTokenRefused means that the endpoint refuses this client.
	errTokenRefused = errors.New("the endpoint refuses this client a token")
)

// extensionName and extensionValue follow RFC 7628. Kafka refuses others.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7E \t\r\n]+$`)
)

// bearer is the mechanism. All connections share one token. A new one is fetched when a fifth of its time is left, or half a
// minute if that is earlier.
type bearer struct {
	OAuth
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex
	token *oauth2.Token
	fetch time.Time // when to ask for the next token
}

func (o *OAuth) mechanism() (*bearer, error) {
	for name, value := range o.Extensions {
		if !extensionName.MatchString(name) || name == "auth" || !extensionValue.MatchString(value) {
			return nil, fmt.Errorf("KAFKA_OAUTH_EXTENSIONS: %s=%s is not a valid extension: the name must have letters only, and the value printable characters only", name, value)
		}
	}
	b := &bearer{OAuth: *o, client: &http.Client{Timeout: tokenTimeout}, now: time.Now}
	if o.CAFile != "" {
		roots, err := Authorities("KAFKA_OAUTH_CA_FILE", o.CAFile)
		if err != nil {
			return nil, err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		b.client.Transport = transport
	}
	return b, nil
}

// Name implements sasl.Mechanism.
func (b *bearer) Name() string { return oauthBearer }

// Start implements sasl.Mechanism. The first message carries the token.
func (b *bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	first := []byte("n,,\x01auth=Bearer " + token + "\x01")
	for _, name := range slices.Sorted(maps.Keys(b.Extensions)) {
		first = append(first, name+"="+b.Extensions[name]+"\x01"...)
	}
	return bearing{b}, append(first, '\x01'), nil
}

// bearing is a login under way.
type bearing struct{ *bearer }

// Next implements sasl.StateMachine. A broker that accepts the token answers nothing. Otherwise it sends the reason as JSON and
// ends the login. Next then forgets the token, so that the next login asks for a new one.
func (b bearing) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	b.forget()
	return false, nil, fmt.Errorf("%w: the broker refuses the token: %.200q", kafkago.SASLAuthenticationFailed, challenge)
}

func (b *bearer) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.token = nil
}

// current returns a token that lasts for a while.
func (b *bearer) current(ctx context.Context) (string, error) {
	if b.TokenFile != "" {
		return readToken(b.TokenFile)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token != nil && b.now().Before(b.fetch) {
		return b.token.AccessToken, nil
	}
	config := clientcredentials.Config{ClientID: b.ClientID, ClientSecret: b.ClientSecret, TokenURL: b.TokenURL, Scopes: b.Scopes}
	if len(b.Parameters) > 0 {
		config.EndpointParams = map[string][]string{}
		for name, value := range b.Parameters {
			config.EndpointParams[name] = []string{value}
		}
	}
	token, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, b.client))
	if err != nil {
		return "", b.explain(err)
	}
	if !usable(token.AccessToken) {
		return "", fmt.Errorf("%w: the token from KAFKA_OAUTH_TOKEN_URL must have visible ASCII characters only", errTokenRefused)
	}
	b.token, b.fetch = token, b.now()
	if lasts := token.Expiry.Sub(b.now()); !token.Expiry.IsZero() && lasts > 0 {
		b.fetch = b.now().Add(max(0, min(lasts/100*80, lasts-leastLeft)))
	}
	return token.AccessToken, nil
}

// explain turns an error of the endpoint into a message without secrets.
func (b *bearer) explain(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || answer.Response == nil {
		return fmt.Errorf("%w: requesting a token from KAFKA_OAUTH_TOKEN_URL (%s): %w", errTokenAway, b.TokenURL, err)
	}
	status := answer.Response.StatusCode
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return fmt.Errorf("%w: KAFKA_OAUTH_TOKEN_URL (%s) answers %s", errTokenAway, b.TokenURL, answer.Response.Status)
	}
	what := strings.TrimSpace(answer.ErrorCode + " " + answer.ErrorDescription)
	if what == "" {
		what = "without a reason"
	}
	return fmt.Errorf("%w: KAFKA_OAUTH_TOKEN_URL (%s) answers %s, %s: check KAFKA_OAUTH_CLIENT_ID, KAFKA_OAUTH_CLIENT_SECRET and KAFKA_OAUTH_SCOPE",
		errTokenRefused, b.TokenURL, answer.Response.Status, what)
}

// readToken reads a token from a file.
func readToken(file string) (string, error) {
	content, err := os.ReadFile(file)
	token := bytes.TrimSpace(content)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: reading KAFKA_OAUTH_TOKEN_FILE: %w", errTokenAway, err)
	case len(token) == 0 || len(content) > maxTokenFile || !usable(string(token)):
		return "", fmt.Errorf("%w: KAFKA_OAUTH_TOKEN_FILE: %s contains no valid token", errTokenAway, file)
	}
	return string(token), nil
}

// usable reports whether a token may be sent in a login.
func usable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7F })
}
