package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"waterwheel/internal/words"
)

// checker collects problems with combinations of settings.
type checker struct {
	*Config
	bad      map[string]bool // variables with wrong values: no check uses them
	given    map[string]bool // variables that are set, rather than left to their default
	problems []Problem
}

// check finds problems beyond the bounds of single fields.
func check(c *Config, bad, given map[string]bool) []Problem {
	k := checker{Config: c, bad: bad, given: given}
	k.addresses()
	k.topics()
	k.security()
	k.timing()
	k.events()
	k.uri()
	k.database()
	k.storedFields()
	k.metaIndexes()
	k.collections()
	k.bucketing()
	k.rollups()
	k.deadLetters()
	k.serve()
	return k.problems
}

// good reports whether all these variables have values that a check can use.
func (k *checker) good(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return k.bad[n] })
}

// fail reports a problem, unless the variable already has one.
func (k *checker) fail(variable string, value any, format string, args ...any) {
	if k.bad[variable] {
		return
	}
	shown := fmt.Sprint(value)
	if mayHoldLogin(shown) {
		shown = masked
	}
	k.problems = append(k.problems, Problem{Variable: variable, Value: shown, Message: fmt.Sprintf(format, args...)})
}

// keyPair rejects a certificate without a key, and a key without a certificate. prefix is the beginning of their settings' names.
func (k *checker) keyPair(prefix, certificate, key string) {
	if (certificate == "") != (key == "") {
		k.fail(prefix+"_CERT_FILE", certificate, "this setting and %s_KEY_FILE must be set together: set both or neither", prefix)
	}
}

func (k *checker) addresses() {
	if k.good("KAFKA_BROKERS") {
		for i, broker := range k.Kafka.Brokers {
			host, port, err := net.SplitHostPort(broker)
			switch {
			case err == nil && brokerHost.MatchString(host) && isPort(port, 1):
			case strings.Contains(broker, "://"):
				k.fail("KAFKA_BROKERS", "", "address %d has a scheme: write only host:port here, and set encryption and login with KAFKA_SECURITY", i+1)
			case strings.ContainsAny(broker, "; \t"):
				k.fail("KAFKA_BROKERS", "", "address %d contains a semicolon or a space: write commas between addresses, as kafka-1:9092,kafka-2:9092", i+1)
			case harmless.MatchString(broker) && !mayHoldLogin(strings.Join(k.Kafka.Brokers, ",")):
				k.fail("KAFKA_BROKERS", broker, "not an address: write host:port, as kafka-1:9092")
			default: // it may contain a password
				k.fail("KAFKA_BROKERS", "", "entry %d is not an address: write host:port, as kafka-1:9092; write a login into KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD", i+1)
			}
		}
	}
	for _, listen := range [][2]string{{"HTTP_ADDR", k.Service.HTTPAddr}, {"PPROF_ADDR", k.Service.PprofAddr}} {
		if _, port, err := net.SplitHostPort(listen[1]); listen[1] != "" && (err != nil || !isPort(port, 0)) {
			k.fail(listen[0], listen[1], "not an address to listen at: write host:port or :port, as :9464")
		}
	}
	if k.Service.HTTPAddr != "" && k.Service.HTTPAddr == k.Service.PprofAddr {
		k.fail("PPROF_ADDR", k.Service.PprofAddr, "is the same address as HTTP_ADDR: choose another address for the profiles")
	}
}

var (
	// brokerHost matches a name or an address.
	brokerHost = regexp.MustCompile(`^[A-Za-z0-9._-]+$|^[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?$`)
	// harmless matches a name with or without a port. It cannot contain a login.
	harmless = regexp.MustCompile(`^[A-Za-z0-9._-]+(:[0-9]*)?$`)
)

func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}

// timing rejects durations that would let a write outlive the right to write (the lease protocol), or the process.
func (k *checker) timing() {
	kafka, write := k.Kafka, k.MongoDB.WriteTimeout
	if least := 3 * k.Flush.CommitInterval; k.good("KAFKA_LEASE", "COMMIT_INTERVAL") && kafka.Lease < least {
		k.fail("KAFKA_LEASE", words.Duration(kafka.Lease), "must be at least 3 × COMMIT_INTERVAL = %s", words.Duration(least))
	}
	if k.good("KAFKA_REBALANCE_TIMEOUT", "MONGODB_WRITE_TIMEOUT") && kafka.RebalanceTimeout/2 <= write {
		k.fail("KAFKA_REBALANCE_TIMEOUT", words.Duration(kafka.RebalanceTimeout),
			"must be more than 2 × MONGODB_WRITE_TIMEOUT = %s: a rebalance waits for the writes in flight", words.Duration(2*write))
	}
	if k.good("SHUTDOWN_TIMEOUT", "MONGODB_WRITE_TIMEOUT") && k.Service.ShutdownTimeout <= write {
		k.fail("SHUTDOWN_TIMEOUT", words.Duration(k.Service.ShutdownTimeout),
			"must be more than MONGODB_WRITE_TIMEOUT = %s: the shutdown waits for the writes in flight", words.Duration(write))
	}
	if k.good("KAFKA_HEARTBEAT_INTERVAL", "KAFKA_SESSION_TIMEOUT") && 3*kafka.HeartbeatInterval > kafka.SessionTimeout {
		k.fail("KAFKA_HEARTBEAT_INTERVAL", words.Duration(kafka.HeartbeatInterval),
			"must be at most a third of KAFKA_SESSION_TIMEOUT = %s", words.Duration(kafka.SessionTimeout))
	}
}

// wholeSeconds rejects a duration that is not in whole seconds, because MongoDB cannot store it.
func (k *checker) wholeSeconds(variable string, d time.Duration) {
	if d%time.Second != 0 {
		k.fail(variable, words.Duration(d), "must be whole seconds")
	}
}

// isLoopback reports whether a host is a loopback address or localhost.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// PagePort returns the TCP port of the status page. It is zero if other machines cannot reach the page.
func (s Service) PagePort() uint16 {
	host, port, err := net.SplitHostPort(s.HTTPAddr)
	if err != nil || isLoopback(host) {
		return 0
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(number)
}

// serve checks the settings of reading over HTTP.
func (k *checker) serve() {
	s := k.Serve
	if _, port, err := net.SplitHostPort(s.Addr); err != nil || !isPort(port, 0) {
		k.fail("SERVE_ADDR", s.Addr, "not an address to listen at: write host:port or :port, as :9465")
	}
	k.keyPair("SERVE_TLS", s.CertFile, s.KeyFile)
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// topicRule describes the names that Kafka allows for topics.
const topicRule = "not a valid topic name: Kafka allows 1 to 249 of the characters a-z A-Z 0-9 . _ -, and not . or .."

func isTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }

func (k *checker) topics() {
	if !k.good("KAFKA_TOPICS") {
		return
	}
	for i, topic := range k.Kafka.Topics {
		if _, err := regexp.Compile(topic); isPattern(topic) && err != nil {
			k.fail("KAFKA_TOPICS", topic, "is not a regular expression: %v; an expression with a comma cannot be used here", err)
		} else if !isPattern(topic) && !isTopic(topic) {
			rule := topicRule
			switch {
			case k.Kafka.HasPatterns():
				rule += ". A comma ends an entry, also within a regular expression"
			case strings.ContainsAny(topic, `*+?[](){}|$\`):
				rule += ". A regular expression must begin with ^"
			}
			k.fail("KAFKA_TOPICS", topic, "%s", rule)
		}
		if slices.Contains(k.Kafka.Topics[:i], topic) {
			k.fail("KAFKA_TOPICS", topic, "is listed twice")
		}
	}
}

func (k *checker) security() {
	s := k.Security
	if !k.good("KAFKA_SECURITY") {
		return
	}
	k.sasl()
	files := s.TLSCAFile + s.TLSCertFile + s.TLSKeyFile + s.TLSServerName
	if !strings.HasSuffix(s.Protocol, "tls") && (files != "" || s.TLSInsecure) {
		k.fail("KAFKA_SECURITY", s.Protocol, "does not encrypt, but KAFKA_TLS_… is set: use tls or sasl_tls, or unset KAFKA_TLS_…")
	}
	k.keyPair("KAFKA_TLS", s.TLSCertFile, s.TLSKeyFile)
}

func (k *checker) deadLetters() {
	if !k.good("KAFKA_TOPICS", "DLQ_TOPIC") {
		return
	}
	for _, topic := range k.Kafka.Topics {
		name := k.DeadLettersFor(topic)
		switch {
		case !isTopic(topic): // a pattern, or reported already
		case name == "": // a bad record stops its partition
		case !isTopic(name):
			k.fail("DLQ_TOPIC", k.DLQ.Topic, "the dead-letter topic of %s would be %s: %s", topic, quoted(name), topicRule)
		case slices.Contains(k.Kafka.Topics, name):
			k.fail("DLQ_TOPIC", k.DLQ.Topic, "the dead-letter topic of %s would be %s, which is in KAFKA_TOPICS: its dead letters would be read as events", topic, name)
		}
	}
}

// OAuthBearer is the SASL mechanism for tokens.
const OAuthBearer = "OAUTHBEARER"

// Pairs returns checked settings of the form name=value as a map.
func Pairs(list []string) map[string]string {
	pairs := make(map[string]string, len(list))
	for _, one := range list {
		name, value, _ := strings.Cut(one, "=")
		pairs[name] = value
	}
	return pairs
}

// sasl checks the settings of the login to Kafka.
func (k *checker) sasl() {
	s := k.Security
	const password, token = "KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD", "KAFKA_OAUTH_…"
	hasPassword := s.SASLUsername != "" || s.SASLPassword != ""
	hasToken := s.OAuthTokenURL != "" || s.OAuthClientID != "" || s.OAuthClientSecret != "" || s.OAuthTokenFile != "" || s.OAuthCAFile != "" ||
		len(s.OAuthScope)+len(s.OAuthParameters)+len(s.OAuthExtensions) > 0
	if !strings.HasPrefix(s.Protocol, "sasl_") {
		if s.SASLMechanism != "" || hasPassword || hasToken {
			k.fail("KAFKA_SECURITY", s.Protocol, "does not authenticate, but KAFKA_SASL_… or KAFKA_OAUTH_… is set: use sasl_tls (or sasl_plaintext), or unset these")
		}
		return
	}
	require := func(name, value, with string) {
		if value == "" {
			k.fail(name, "", "is required with %s", with)
		}
	}
	with := "KAFKA_SECURITY=" + s.Protocol
	require("KAFKA_SASL_MECHANISM", s.SASLMechanism, with)
	if s.SASLMechanism != OAuthBearer {
		if hasToken {
			k.fail("KAFKA_SASL_MECHANISM", s.SASLMechanism, "does not use a token, but %s is set: use OAUTHBEARER, or unset %[1]s", token)
		}
		require("KAFKA_SASL_USERNAME", s.SASLUsername, with)
		require("KAFKA_SASL_PASSWORD", string(s.SASLPassword), with)
		return
	}
	if hasPassword {
		k.fail("KAFKA_SASL_MECHANISM", s.SASLMechanism, "does not use a user name and a password, but %s are set: unset these, and set %s", password, token)
	}
	for _, list := range []struct {
		name  string
		pairs []string
	}{{"KAFKA_OAUTH_PARAMETERS", s.OAuthParameters}, {"KAFKA_OAUTH_EXTENSIONS", s.OAuthExtensions}} {
		for _, pair := range list.pairs {
			if name, value, ok := strings.Cut(pair, "="); !ok || name == "" || value == "" {
				k.fail(list.name, pair, "must be name=value, several with commas between them")
			}
		}
	}
	if s.OAuthTokenFile != "" {
		if s.OAuthTokenURL != "" {
			k.fail("KAFKA_OAUTH_TOKEN_FILE", s.OAuthTokenFile, "cannot be combined with KAFKA_OAUTH_TOKEN_URL: set only one of them")
		}
		return
	}
	require("KAFKA_OAUTH_TOKEN_URL", s.OAuthTokenURL, "KAFKA_SASL_MECHANISM=OAUTHBEARER, unless KAFKA_OAUTH_TOKEN_FILE has a token")
	if s.OAuthTokenURL == "" {
		return
	}
	require("KAFKA_OAUTH_CLIENT_ID", s.OAuthClientID, "KAFKA_OAUTH_TOKEN_URL")
	require("KAFKA_OAUTH_CLIENT_SECRET", string(s.OAuthClientSecret), "KAFKA_OAUTH_TOKEN_URL")
	switch u, err := url.Parse(s.OAuthTokenURL); {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		k.fail("KAFKA_OAUTH_TOKEN_URL", s.OAuthTokenURL, "must be a URL, as https://login.example.com/oauth2/token")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		k.fail("KAFKA_OAUTH_TOKEN_URL", s.OAuthTokenURL, "would send the client's secret unencrypted: use https")
	}
}
