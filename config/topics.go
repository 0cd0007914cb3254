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
		ofOurs := slices.ContainsFunc(c.deadLetters(), func(d DLQ) bool {
			source, is := d.sourceOf(name)
			return is && (source == "" || topics[source] || matches(source))
		})
		if isTopic(name) && !strings.HasPrefix(name, "__") && !ofOurs && matches(name) {
			topics[name] = true
		}
	}
	return slices.Sorted(maps.Keys(topics))
}

// deadLetters are the settings of dead letters, the general ones and those of single topics.
func (c Config) deadLetters() []DLQ {
	all := []DLQ{c.DLQ}
	for i := range c.topics {
		all = append(all, c.topics[i].DLQ)
	}
	return all
}

// HasDeadLetters reports whether some topic has a dead-letter topic.
func (c Config) HasDeadLetters() bool {
	return slices.ContainsFunc(c.deadLetters(), func(d DLQ) bool { return d.Topic != "" })
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

// topicConfig are the settings of one topic, or of those that a pattern matches.
type topicConfig struct {
	topic string
	Config
}

// ForTopic are the settings for a topic: those of its own part of CONFIG_FILE, else of the first pattern there that matches it, else the
// general ones. Only what events become and how they are stored differs by topic.
func (c Config) ForTopic(topic string) Config {
	for _, named := range []bool{true, false} {
		for i := range c.topics {
			one := &c.topics[i]
			if isPattern(one.topic) == named {
				continue
			}
			matches := one.topic == topic
			if !named {
				matches, _ = regexp.MatchString(one.topic, topic)
			}
			if matches {
				own := one.Config
				own.Kafka = c.Kafka
				return own
			}
		}
	}
	return c
}

// SeriesFor is the name of the time series of a topic.
func (c Config) SeriesFor(topic string) string { return c.ForTopic(topic).MongoDB.seriesFor(topic) }

// DeadLettersFor is the name of the dead-letter topic of a topic. Empty means that a bad record stops its partition instead.
func (c Config) DeadLettersFor(topic string) string { return c.ForTopic(topic).DLQ.topicFor(topic) }
