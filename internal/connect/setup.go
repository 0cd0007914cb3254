package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/mongodb"
	"waterwheel/internal/record"
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
	nested, err := n.setUpRollups(ctx, c, series, topic)
	ready.Rollups = ready.Rollups || len(c.Rollup.Levels) > 0
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stores[topic] = sink.NewStore(ready, sink.StoreOptions{
		MaxCount: c.Bucket.MaxCount, WriteTimeout: n.Config.MongoDB.WriteTimeout, Lease: n.held,
		StoredBytes: min(sink.DefaultStoredBytes, Budget(n.Config)/storedShare), Metrics: n.metrics, Logger: n.Database.Log(),
	})
	n.rollups[topic] = sink.RollupsOf(n.Database, c.SeriesFor(topic))
	if nested != nil {
		n.nested[c.SeriesFor(topic)] = nested
	}
	return err
}

// setUpRollups creates the collections of the rollups of a topic. It returns the collection of nested documents, or nil if there is
// none.
func (n *Connections) setUpRollups(ctx context.Context, c config.Config, series collection.TimeSeries, topic string) (mongodb.Collection, error) {
	levels := rollup.Levels(c.Rollup.Levels)
	if len(levels) > 0 {
		if err := series.SetupRollups(ctx, levels, c.Rollup.Rules(), SeriesSettings(n.Config)); err != nil {
			return nil, err
		}
	}
	if err := series.WarnOfOtherLevels(ctx, levels); err != nil {
		return nil, err
	}
	if len(levels) == 0 || c.Rollup.Nested.Collection == "" {
		return nil, nil
	}
	nested, err := collection.Nested(ctx, n.Database, c.Rollup.Nested.For(topic))
	if err != nil {
		return nil, fmt.Errorf("ROLLUP_NESTED: %w", err)
	}
	return nested, nil
}

// openDeadLetters finds or creates the dead-letter topics.
func (n *Connections) openDeadLetters(ctx context.Context, c config.Config, p *Patience) error {
	if !n.Config.HasDeadLetters() {
		return nil
	}
	named := c.Kafka.Named()
	o, w := DeadLetterOptions(n.Config), kafkaWait(c, pipeline.DeadLetterTopic)
	o.Sources = slices.Clone(named)
	n.DeadLetters = dlq.New(n.Kafka, o)
	if err := p.opens(ctx, w, func(ctx context.Context) error { return mayPass(n.DeadLetters.Setup(ctx)) }); err != nil {
		return err
	}
	sound, refused, err := n.eachTopic(ctx, named, func(topic string) error {
		if slices.Contains(named, topic) {
			return nil
		}
		return p.opens(ctx, w, func(ctx context.Context) error { return mayPass(n.DeadLetters.Add(ctx, topic)) })
	})
	return n.keep(sound, refused, err)
}

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
	named := c.Kafka.Named()
	if matched, err = c.WithTopics(named); err != nil {
		return matched, nil, err
	}
	refused = map[string]error{}
	matching := c.Matching(names)
	slices.SortStableFunc(matching, func(a, b string) int { return order.of(a) - order.of(b) })
	for _, topic := range matching {
		if slices.Contains(named, topic) {
			continue
		}
		if !rights[topic].Allow(kafka.Read) {
			refused[topic] = fmt.Errorf("this user can see the topic but may not read it: grant READ on the topic")
			continue
		}
		more, err := matched.WithTopics(append(slices.Clip(matched.Kafka.Topics), topic))
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
	if n.DeadLetters != nil {
		if err := n.DeadLetters.Add(ctx, topic); err != nil {
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

// isMissing reports whether the collection of a topic is not set up. Its only errors are outages, because Setup explains others.
func (n *Connections) isMissing(ctx context.Context, topic string) (bool, error) {
	series := collection.Of(n.Database, n.Config.SeriesFor(topic))
	_, err := collection.ReadDefinition(ctx, series.Ports().Options)
	err = outage(err)
	if _, pending := errors.AsType[*notYetError](err); pending {
		return false, err
	}
	return errors.Is(err, collection.ErrNotSetUp), nil
}

// RefuseEmpty returns a *claim.LostContentError if the collection of a topic is not set up, but the group has committed offsets of
// it. If the user may not read the group's offsets, RefuseEmpty learns nothing.
func (n *Connections) RefuseEmpty(ctx context.Context, topic string) error {
	lost, err := n.commitsOf(ctx, topic)
	if err != nil || lost == nil {
		return err
	}
	// Another consumer may have set the collection up and committed since it was found missing.
	if missing, err := n.isMissing(ctx, topic); err != nil || !missing {
		return err
	}
	return lost
}

// commitsOf returns a *claim.LostContentError that names a commit of the group for the collection of a topic. Nil means that there
// is none.
func (n *Connections) commitsOf(ctx context.Context, topic string) (lost, err error) {
	topics, err := n.Kafka.Topics(ctx, topic)
	if err == nil {
		err = topics[0].Err
	}
	if err != nil {
		return nil, notYet(err)
	}
	var partitions []record.Partition
	for _, p := range topics[0].Partitions {
		partitions = append(partitions, record.Partition{Topic: topic, Number: p.ID})
	}
	group := n.Config.Kafka.GroupID
	answers, err := n.Kafka.Committed(ctx, group, partitions)
	ours := claim.Provenance{ClusterID: n.Kafka.ClusterID(), TopicID: topics[0].ID, Namespace: Namespace(n.Config, topic)}
	return refuseEmpty(ours, group, answers, err)
}

// refuseEmpty judges the answers for the group's commits. One commit is enough, whatever became of the other answers. If there is
// none, an outage is the error. A missing right is not, because it would not pass.
func refuseEmpty(ours claim.Provenance, group string, answers []kafka.Committed, failed error) (lost, err error) {
	partitions, committed := make([]record.Partition, len(answers)), make([]claim.Committed, len(answers))
	for i, a := range answers {
		partitions[i], committed[i] = a.Partition, claim.Committed{Offset: -1}
		if failed = errors.Join(failed, a.Err); a.Err == nil {
			committed[i] = claim.Committed{Offset: a.Offset, Metadata: a.Metadata, Consumed: a.Consumed()}
		}
	}
	if lost = ours.RefuseEmpty(group, partitions, committed); lost == nil && failed != nil && kafka.Classify(failed) == kafka.Retry {
		return nil, notYet(failed)
	}
	return lost, nil
}

// notYet marks errors of Kafka that may pass by themselves, also those of a topic that not all brokers know yet.
func notYet(err error) error {
	if kafka.Classify(err) == kafka.LookAtMetadata {
		return &notYetError{err}
	}
	return mayPass(err)
}
