package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// patternMark begins an entry of KAFKA_TOPICS that is a regular expression, as in librdkafka. No topic's name begins so.
const patternMark = "^"

func isPattern(entry string) bool { return strings.HasPrefix(entry, patternMark) }

// HasPatterns reports whether some of the topics are named by regular expressions.
func (k Kafka) HasPatterns() bool { return slices.ContainsFunc(k.Topics, isPattern) }

// Named are the topics of KAFKA_TOPICS that are named themselves, and must exist.
func (k Kafka) Named() []string {
	return slices.DeleteFunc(slices.Clone(k.Topics), isPattern)
}

// Matching are the topics to read when the cluster has these: those that are named themselves, and those whose names a regular
// expression of KAFKA_TOPICS matches, sorted. A dead-letter topic of a topic that would match is never matched, and neither is a topic
// whose name begins with two underscores, as Kafka's own do.
func (c Config) Matching(there []string) []string {
	var patterns []*regexp.Regexp
	for _, entry := range c.Kafka.Topics {
		if p, err := regexp.Compile(entry); err == nil && isPattern(entry) {
			patterns = append(patterns, p)
		}
	}
	matches := func(name string) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
	}
	topics := map[string]bool{}
	for _, name := range c.Kafka.Named() {
		topics[name] = true
	}
	for _, name := range there {
		source, isDLQ := c.DLQ.sourceOf(name)
		ofOurs := isDLQ && (source == "" || topics[source] || matches(source))
		if isTopic(name) && !strings.HasPrefix(name, "__") && !ofOurs && matches(name) {
			topics[name] = true
		}
	}
	return slices.Sorted(maps.Keys(topics))
}

// sourceOf is the topic whose dead-letter topic has this name. It is empty where all topics share one.
func (d DLQ) sourceOf(name string) (source string, is bool) {
	before, after, own := strings.Cut(d.Topic, topicPlaceholder)
	switch {
	case d.Topic == "":
		return "", false
	case !own:
		return "", name == d.Topic
	}
	source, before2 := strings.CutPrefix(name, before)
	source, after2 := strings.CutSuffix(source, after)
	return source, before2 && after2 && source != ""
}

// WithTopics are the settings with the topics that were found for KAFKA_TOPICS. The error is an *Error, as that of Load: the
// collections or dead-letter topics of two topics would be the same.
func (c Config) WithTopics(topics []string) (Config, error) {
	c.Kafka.Topics = topics
	k := checker{Config: &c, bad: map[string]bool{}}
	k.topics()
	k.collections()
	k.deadLetters()
	if len(k.problems) > 0 {
		return Config{}, &Error{Problems: k.problems}
	}
	return c, nil
}
