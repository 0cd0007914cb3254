package config

import (
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
