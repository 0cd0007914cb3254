package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/internal/kafka"
)

// Precedence orders topics that match a pattern. If two of them would share a collection, the first is read. The topics First come
// before all others, and the topics Last after them.
type Precedence struct{ First, Last []string }

func (p Precedence) of(topic string) int {
	switch {
	case slices.Contains(p.First, topic):
		return 0
	case slices.Contains(p.Last, topic):
		return 2
	}
	return 1
}

// match makes the topics that match the patterns of KAFKA_TOPICS those of the connections.
func (n *Connections) match(ctx context.Context, c config.Config, order Precedence, p *Patience) error {
	matched, _, err := Match(ctx, n.Kafka, c, order, p.Log)
	if err != nil {
		return mayPass(err)
	}
	n.Config = matched
	n.Kafka.Route(matched.Kafka.Topics)
	return nil
}

// Match finds the topics for the patterns of KAFKA_TOPICS, and returns the settings with their names in place of the patterns. It
// leaves out a topic that this user may not read, or whose collections belong to another topic. refused has the reasons by topic.
func Match(ctx context.Context, client *kafka.Client, c config.Config, order Precedence, log *slog.Logger) (matched config.Config, refused map[string]error, err error) {
	there, err := client.AllTopics(ctx)
	if err != nil {
		return config.Config{}, nil, fmt.Errorf("looking for the topics that match KAFKA_TOPICS: %w", err)
	}
	return matchTopics(c, there, order, log)
}

func matchTopics(c config.Config, there []kafka.Topic, order Precedence, log *slog.Logger) (matched config.Config, refused map[string]error, err error) {
	var names []string
	rights := map[string]kafka.Rights{}
	for _, topic := range there {
		if !topic.Internal && topic.Err == nil {
			names = append(names, topic.Name)
			rights[topic.Name] = topic.Rights
		}
	}
	named := map[string]bool{}
	for _, topic := range c.Kafka.Named() {
		named[topic] = true
	}
	if matched, err = c.WithTopics(c.Kafka.Named()); err != nil {
		return matched, nil, err
	}
	refused = map[string]error{}
	matching := c.Matching(names)
	slices.SortStableFunc(matching, func(a, b string) int { return order.of(a) - order.of(b) })
	for _, topic := range matching {
		if named[topic] {
			continue
		}
		if !rights[topic].Allow(kafka.Read) {
			refused[topic] = fmt.Errorf("this user can see the topic but may not read it: grant READ on the topic")
			continue
		}
		more, err := matched.WithTopics(append(matched.Kafka.Topics[:len(matched.Kafka.Topics):len(matched.Kafka.Topics)], topic))
		if err != nil {
			refused[topic] = oneLine(err)
			continue
		}
		matched = more
	}
	for topic, why := range refused {
		log.Debug("topic matches KAFKA_TOPICS but is not read", "topic", topic, "err", why)
	}
	return matched, refused, nil
}

// ErrNoTopic means that KAFKA_TOPICS has patterns only, and no topic matches them.
var ErrNoTopic = errors.New("no topic matches yet, or this user may not see the topics that match: create a topic, correct the pattern, or grant this user DESCRIBE on the topics")

// oneLine returns an error of the settings in one line.
func oneLine(err error) error {
	wrong, ok := errors.AsType[*config.Error](err)
	if !ok {
		return err
	}
	texts := make([]string, len(wrong.Problems))
	for i, p := range wrong.Problems {
		texts[i] = p.String()
	}
	return errors.New(strings.Join(texts, "; "))
}

// Resolve is Match for a command, with its own connection. Without patterns it makes no request.
func Resolve(ctx context.Context, c config.Config, log *slog.Logger) (config.Config, error) {
	if !c.Kafka.HasPatterns() {
		return c, nil
	}
	o := KafkaOptions(c, log)
	o.Topics = nil
	client, err := kafka.Open(ctx, o, prometheus.NewRegistry())
	if err != nil {
		return config.Config{}, err
	}
	defer client.Close()
	matched, _, err := Match(ctx, client, c, Precedence{}, log)
	if err == nil && len(matched.Kafka.Topics) == 0 {
		err = kafka.Mistake(fmt.Errorf("KAFKA_TOPICS=%s: %w", strings.Join(c.Kafka.Topics, ","), ErrNoTopic))
	}
	return matched, err
}

// Add sets up a topic that was created while the consumer runs: its collections and its dead-letter topic. KAFKA_START does not
// apply to it, so all of its records are read. Add may be called again after an error.
func (n *Connections) Add(ctx context.Context, topic string) error {
	n.Kafka.BeginAtFirst(topic)
	if n.Letters != nil {
		if err := n.Letters.Add(ctx, topic); err != nil {
			return err
		}
	}
	missing, err := n.isMissing(ctx, topic)
	if err == nil && missing {
		err = n.RefuseEmpty(ctx, topic)
	}
	if err != nil {
		return err
	}
	return n.setUpTopic(ctx, topic)
}
