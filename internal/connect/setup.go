package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/rollup"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// setUp creates the collections of the topics. If MongoDB refuses to create one, setUp still creates the others. No try has a
// timeout, because an index may take long. c are the settings with the patterns of KAFKA_TOPICS.
func (n *Connections) setUp(ctx context.Context, c config.Config, p *Patience) error {
	w := databaseWait(c)
	w.slow = "MongoDB creates the collections and their indexes, which takes long if there are many documents: db.currentOp() shows the progress"
	refused := map[string]error{}
	for {
		sound, bad, err := n.eachTopic(ctx, c.Kafka.Named(), func(topic string) error {
			if n.Store(topic) != nil {
				return nil
			}
			missing := false
			err := p.wait(ctx, w, func(ctx context.Context) (err error) {
				missing, err = n.isMissing(ctx, topic)
				return err
			})
			if err == nil && missing {
				err = p.wait(ctx, kafkaWait(c, pipeline.Kafka), func(ctx context.Context) error { return n.RefuseEmpty(ctx, topic) })
			}
			if err == nil {
				err = p.wait(ctx, w, func(context.Context) error { return outage(n.setUpTopic(ctx, topic)) })
			}
			return err
		})
		maps.Copy(refused, bad)
		if err != nil || len(bad) == 0 {
			return n.keep(sound, refused, err)
		}
		// A topic may have been left out only because a refused one would share its collection.
		err = p.opens(ctx, kafkaWait(c, pipeline.Kafka), func(ctx context.Context) error {
			return n.match(ctx, c, Precedence{Last: slices.Collect(maps.Keys(refused))}, p)
		})
		again := slices.DeleteFunc(slices.Clone(n.Config.Kafka.Topics), func(topic string) bool { return refused[topic] != nil })
		if err = n.keep(again, refused, err); err != nil {
			return err
		}
	}
}

// eachTopic calls do for each topic. If there is something wrong with a topic that only matches a pattern, the topic is refused, and
// is not read. So nobody can stop consumers by creating a topic. err has the errors of other topics. named are the topics that
// KAFKA_TOPICS names.
func (n *Connections) eachTopic(ctx context.Context, named []string, do func(topic string) error) (sound []string, refused map[string]error, err error) {
	refused = map[string]error{}
	var failed []error
	for _, topic := range n.Config.Kafka.Topics {
		err := do(topic)
		switch {
		case err == nil:
			sound = append(sound, topic)
		case isOwn(err) && !slices.Contains(named, topic):
			refused[topic] = err
		default:
			failed = append(failed, err)
		}
		if _, ok := errors.AsType[*mongodb.OutageError](err); ctx.Err() != nil || ok {
			break
		}
	}
	return sound, refused, errors.Join(failed...)
}

// keep leaves out all topics but the sound ones. It returns err and the reasons if there is an error, or if all topics are refused.
func (n *Connections) keep(sound []string, refused map[string]error, err error) error {
	if err != nil || len(sound) == 0 && len(refused) > 0 {
		all := []error{err}
		for _, topic := range slices.Sorted(maps.Keys(refused)) {
			all = append(all, refused[topic])
		}
		return errors.Join(all...)
	}
	if slices.Equal(sound, n.Config.Kafka.Topics) {
		return nil
	}
	if n.Config, err = n.Config.WithTopics(sound); err == nil {
		n.Kafka.Route(sound)
	}
	return err
}

// isOwn reports whether an error of a set-up concerns one topic only.
func isOwn(err error) bool {
	_, lost := errors.AsType[*claim.LostContentError](err)
	_, outage := errors.AsType[*mongodb.OutageError](err)
	_, pending := errors.AsType[*notYetError](err)
	return !lost && !outage && !pending && !errors.Is(err, context.Canceled)
}

// setUpTopic creates the collections of a topic.
func (n *Connections) setUpTopic(ctx context.Context, topic string) error {
	c := n.Config.ForTopic(topic)
	_, definition, err := NewDecoder(c)
	if err != nil {
		return err
	}
	series := collection.Of(n.Database, c.SeriesFor(topic))
	ready, err := series.Setup(ctx, definition, SeriesSettings(n.Config))
	if err != nil {
		return err
	}
	rolled, nested, err := n.setUpRollups(ctx, c, series, topic)
	ready.Rollups = ready.Rollups || len(c.Rollup.Levels) > 0
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stores[topic] = sink.NewStore(ready, sink.StoreOptions{
		MaxCount: c.Bucket.MaxCount, WriteTimeout: n.Config.MongoDB.WriteTimeout, Lease: n.held,
		StoredBytes: min(sink.DefaultStoredBytes, Budget(n.Config)/storedShare), Metrics: n.metrics, Logger: n.Database.Log(),
	})
	if rolled {
		n.rollups[topic] = sink.RollupsOf(n.Database, c.SeriesFor(topic))
	}
	if nested != nil {
		n.nested[c.SeriesFor(topic)] = nested
	}
	return err
}

// setUpRollups creates the collections of the rollups of a topic, and reports whether there are some.
func (n *Connections) setUpRollups(ctx context.Context, c config.Config, series collection.TimeSeries, topic string) (bool, mongodb.Collection, error) {
	if len(c.Rollup.Levels) == 0 {
		return false, nil, nil
	}
	if err := series.SetupRollups(ctx, rollup.Levels(c.Rollup.Levels), c.Rollup.Rules(), SeriesSettings(n.Config)); err != nil {
		return false, nil, err
	}
	if c.Rollup.Nested.Collection == "" {
		return true, nil, nil
	}
	nested, err := collection.Nested(ctx, n.Database, c.Rollup.Nested.For(topic))
	if err != nil {
		return true, nil, fmt.Errorf("ROLLUP_NESTED: %w", err)
	}
	return true, nested, nil
}

// openLetters finds or creates the dead-letter topics.
func (n *Connections) openLetters(ctx context.Context, c config.Config, p *Patience) error {
	if !n.Config.HasDeadLetters() {
		return nil
	}
	named := c.Kafka.Named()
	o, w := LetterOptions(n.Config), kafkaWait(c, pipeline.DeadLetters)
	o.Sources = slices.Clone(named)
	n.Letters = dlq.New(n.Kafka, o)
	if err := p.opens(ctx, w, func(ctx context.Context) error { return mayPass(n.Letters.Setup(ctx)) }); err != nil {
		return err
	}
	sound, refused, err := n.eachTopic(ctx, named, func(topic string) error {
		if slices.Contains(named, topic) {
			return nil
		}
		return p.opens(ctx, w, func(ctx context.Context) error { return mayPass(n.Letters.Add(ctx, topic)) })
	})
	return n.keep(sound, refused, err)
}
