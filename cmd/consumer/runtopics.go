package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"waterwheel/config"
)

// topicsInterval is how often run looks for new topics that match KAFKA_TOPICS.
const topicsInterval = 15 * time.Second

// topicWatch follows the topics that match the patterns of KAFKA_TOPICS.
type topicWatch struct {
	log *slog.Logger
	// topics are the topics that are already read.
	topics []string
	// look finds the topics of the cluster that match. It also returns the matching topics that cannot be read, with the reason.
	look func(ctx context.Context) (config.Config, map[string]error, error)
	// add sets a topic up, with its collections.
	add func(ctx context.Context, topic string) error
	// read starts to read these topics. added are the new ones among them.
	read func(topics, added []string)
	// refused are the last logged reasons for topics that are not read.
	refused map[string]string
}

// run looks for new topics until the context ends. It retries a topic that cannot be set up each time. A deleted topic stays on
// the list, because it may come back. Until then nothing of it is assigned.
func (t *topicWatch) run(ctx context.Context, every time.Duration) {
	if len(t.topics) == 0 {
		t.log.Warn("no topic matches KAFKA_TOPICS yet: waiting for one", "look_every", every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.once(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// once looks once for new topics.
func (t *topicWatch) once(ctx context.Context) {
	found, refused, err := t.look(ctx)
	if err != nil {
		t.log.Debug("cannot look for topics that match KAFKA_TOPICS", "err", err)
		return
	}
	var added []string
	for _, topic := range found.Kafka.Topics {
		if slices.Contains(t.topics, topic) {
			continue
		}
		if err := t.add(ctx, topic); err != nil && ctx.Err() == nil {
			refused[topic] = err
			continue
		}
		added = append(added, topic)
	}
	t.tell(refused)
	if len(added) == 0 || ctx.Err() != nil {
		return
	}
	t.topics = append(t.topics[:len(t.topics):len(t.topics)], added...)
	t.log.Info("topics added: they match KAFKA_TOPICS", "topics", strings.Join(added, ","))
	t.read(t.topics, added)
}

// tell logs once for each topic that it is not read, and why.
func (t *topicWatch) tell(refused map[string]error) {
	said := make(map[string]string, len(refused))
	for topic, why := range refused {
		if said[topic] = why.Error(); t.refused[topic] != said[topic] {
			t.log.Warn("topic matches KAFKA_TOPICS but is not read", "topic", topic, "err", why)
		}
	}
	t.refused = said
}
