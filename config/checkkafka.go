package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// topicRule describes the names that Kafka allows for topics.
const topicRule = "not a valid topic name: Kafka allows 1 to 249 of the characters a-z A-Z 0-9 . _ -, and not . or .."

func isTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }

// isNoTopic reports whether Kafka does not allow a name. Such a name is reported as a problem, and other checks skip it.
func isNoTopic(name string) bool { return !isTopic(name) }

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
	for _, topic := range slices.DeleteFunc(slices.Clone(k.Kafka.Topics), isNoTopic) {
		name := k.DeadLettersFor(topic)
		switch {
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
