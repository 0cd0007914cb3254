package cli

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"waterwheel/config"
	"waterwheel/internal/check"
	"waterwheel/internal/claim"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka"
)

// matchTopics replaces the patterns of KAFKA_TOPICS by the topics that match, and reports topics that match and cannot be read.
// Without a reader only the topics that are given by name stay.
func matchTopics(ctx context.Context, reader *kafka.Scanner, c config.Config, log *slog.Logger, found *check.Findings) (config.Config, error) {
	if !c.Kafka.HasPatterns() {
		return c, nil
	}
	named := func() (config.Config, error) { return c.WithTopics(c.Kafka.Named()) }
	if reader == nil {
		return named()
	}
	matched, refused, err := connect.Match(ctx, reader.Client, c, connect.Precedence{}, log)
	if err != nil {
		found.Failed("topics", err)
		return named()
	}
	for _, topic := range slices.Sorted(maps.Keys(refused)) {
		found.Wrong("topic "+topic, "", "matches KAFKA_TOPICS but is not read: %v", refused[topic])
	}
	if len(matched.Kafka.Topics) == 0 {
		found.Failed("topics", connect.ErrNoTopic)
		return matched, nil
	}
	for _, pattern := range c.Kafka.Patterns() {
		if topics := pattern.Of(matched.Kafka.Topics); len(topics) > 0 {
			found.OK("topics", "%s matches %s", pattern, strings.Join(topics, ", "))
		} else {
			found.Warn("topics", "correct the pattern, or create a topic", "no topic matches %s", pattern)
		}
	}
	for _, unread := range matched.UnreadTopics() {
		found.Note("topics", "no topic that is read now has the settings of %s in CONFIG_FILE", unread)
	}
	return matched, nil
}

// checkOptions returns the settings as options of package check.
func checkOptions(ctx context.Context, c config.Config, registry connect.Schemas) (check.Options, error) {
	o := check.Options{
		User: c.Security.SASLUsername, GroupID: c.Kafka.GroupID, Begins: startText(c), OutOfRange: claim.OutOfRange(c.Kafka.OutOfRange),
		Settings: connect.SeriesSettings(c),
	}
	if c.HasDeadLetters() {
		o.Letters = new(connect.LetterOptions(c))
	}
	for _, topic := range c.Kafka.Topics {
		own := c.ForTopic(topic)
		_, definition, err := connect.NewDecoder(own)
		if err != nil {
			return o, err
		}
		decoding := connect.Decoding(own, definition)
		connect.Asking(ctx, registry, &decoding)
		o.Topics = append(o.Topics, check.Topic{
			Name: topic, Series: c.SeriesFor(topic), Namespace: connect.Namespace(c, topic),
			Decoding: decoding, Bucketing: connect.Bucketing(own, definition, false),
		})
	}
	return o, nil
}

// checkRegistry tries to reach the schema registry, if there is one.
func (p *Program) checkRegistry(ctx context.Context, c config.Config, found *check.Findings) (connect.Schemas, error) {
	registry, err := connect.Registry(c, nil)
	if registry == nil || err != nil {
		return nil, err
	}
	if err := connect.TryRegistry(ctx, registry); err != nil {
		found.Failed("schema registry", err)
	} else {
		found.OK("schema registry", "%s answers", strings.Join(c.Registry.URLs, ", "))
	}
	return registry, nil
}

// checkSettings summarizes the settings, and reports those that work but are probably not intended.
func (p *Program) checkSettings(c config.Config, found *check.Findings) {
	found.OK("settings", "group %s reads %s as %s; \"waterwheel config\" prints all", c.Kafka.GroupID, strings.Join(c.Kafka.Topics, ", "), c.Event.Format)
	for _, w := range c.Warnings() {
		found.Warn("settings", w.WayOut, "%s: %s", w.Setting, w.Message)
	}
	if strange := config.Strange(p.Environ); len(strange) > 0 {
		found.Note("settings", "these environment variables look like settings, but are not settings: %s", strings.Join(strange, ", "))
	}
}

// startText describes where a group without offsets begins.
func startText(c config.Config) string {
	if c.Kafka.Start.Policy == "time" {
		return c.Kafka.Start.Time.Format(time.RFC3339) + " (KAFKA_START)"
	}
	return "the " + c.Kafka.Start.Policy + " record (KAFKA_START)"
}
