package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

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
