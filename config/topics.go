package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// patternMark begins an entry of KAFKA_TOPICS that is a regular expression, as in librdkafka. No topic name can begin with it.
const patternMark = "^"

func isPattern(entry string) bool { return strings.HasPrefix(entry, patternMark) }

// HasPatterns reports whether KAFKA_TOPICS contains regular expressions.
func (k Kafka) HasPatterns() bool { return slices.ContainsFunc(k.Topics, isPattern) }

// Pattern is an entry of KAFKA_TOPICS that is a regular expression.
type Pattern string

// Of returns the topics among these that match.
func (p Pattern) Of(topics []string) (matching []string) {
	if expression, err := regexp.Compile(string(p)); err == nil {
		for _, topic := range topics {
			if expression.MatchString(topic) {
				matching = append(matching, topic)
			}
		}
	}
	return matching
}

// Patterns returns the patterns of KAFKA_TOPICS.
func (k Kafka) Patterns() (patterns []Pattern) {
	for _, entry := range k.Topics {
		if isPattern(entry) {
			patterns = append(patterns, Pattern(entry))
		}
	}
	return patterns
}

// Named returns the topics of KAFKA_TOPICS that are given by name. They must exist.
func (k Kafka) Named() []string {
	return slices.DeleteFunc(slices.Clone(k.Topics), isPattern)
}

// Matching returns the topics to read, sorted, if the cluster has the topics in there. They are the named ones, and those whose
// names match a regular expression of KAFKA_TOPICS. It never matches the dead-letter topic of a topic that is read, nor a topic
// whose name begins with two underscores, as Kafka's own do.
func (c Config) Matching(there []string) []string {
	var patterns []*regexp.Regexp
	for _, pattern := range c.Kafka.Patterns() {
		if p, err := regexp.Compile(string(pattern)); err == nil {
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

// deadLetters returns the general settings of dead letters, and those of single topics.
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

// sourceOf returns the topic whose dead-letter topic has this name. It is empty if all topics share one.
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

// WithTopics returns the settings with the topics that were found for KAFKA_TOPICS. Like Load it returns an *Error, if two topics
// would share a collection or a dead-letter topic.
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

// topicConfig holds the settings of one topic, or of the topics that a pattern matches.
type topicConfig struct {
	topic string
	Config
}

// ForTopic returns the settings for a topic. They are those of its own part of CONFIG_FILE, or else of the first pattern there
// that matches it, or else the general ones. Only what events become and how they are stored differs by topic.
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

// SeriesFor returns the name of the time series of a topic.
func (c Config) SeriesFor(topic string) string { return c.ForTopic(topic).MongoDB.seriesFor(topic) }

// DeadLettersFor returns the name of the dead-letter topic of a topic. Empty means that a bad record stops its partition instead.
func (c Config) DeadLettersFor(topic string) string { return c.ForTopic(topic).DLQ.topicFor(topic) }
