package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/keeper"
	"waterwheel/internal/record"
	"waterwheel/internal/timeseries"
	"waterwheel/pipeline"
	"waterwheel/sink"
)

// deadLetterTopic is a dlq.Producer that reports written letters to the status page. If there is no producer, no letter is ever
// made.
type deadLetterTopic struct {
	*dlq.Producer
	written func([]record.DeadLetter)
}

// Produce writes letters, and reports those that were written.
func (t deadLetterTopic) Produce(ctx context.Context, letters []record.DeadLetter) (written int, err error) {
	written, err = t.Producer.Produce(ctx, letters)
	t.written(letters[:written])
	return written, err
}

// ports implements the ports of workers.
type ports struct {
	client      *kafka.Client
	store       func(topic string) *sink.Store
	deadLetters deadLetterTopic
	schemas     pipeline.Schemas
	group       string
	owner       string

	mu sync.Mutex
	// open are the stores whose sessions must be ended when their partitions are opened again.
	open map[record.Partition]*sink.Partition
}

// Open opens a partition's log and store. It ends the session of the partition's former store.
func (p *ports) Open(src timeseries.Source) (pipeline.Log, pipeline.Store) {
	partition := p.store(src.Topic).Partition(src, p.client.ClusterID(), p.group, p.owner)
	name := record.Partition{Topic: src.Topic, Number: src.Partition}
	p.mu.Lock()
	former := p.open[name]
	p.open[name] = partition
	p.mu.Unlock()
	if former != nil {
		former.Close()
	}
	return p.client.Log(name, src.TopicID), partition
}

// DeadLetters returns the same port for all topics, because a letter names its own.
func (p *ports) DeadLetters(string) pipeline.DeadLetters { return p.deadLetters }

// Committed asks the group's coordinator. An error that a retry cannot help is a *record.StopError.
func (p *ports) Committed(ctx context.Context, partition record.Partition) (claim.Committed, error) {
	ctx, cancel := context.WithTimeout(ctx, kafka.AnswerTimeout)
	defer cancel()
	answers, err := p.client.Committed(ctx, p.group, []record.Partition{partition})
	if err != nil {
		return claim.Committed{}, err
	}
	c := &answers[0]
	switch {
	case c.Err == nil:
		return claim.Committed{Offset: c.Offset, Metadata: c.Metadata, Consumed: c.Consumed()}, nil
	case kafka.Classify(c.Err) == kafka.Retry:
		return claim.Committed{}, c.Err
	}
	return claim.Committed{}, &record.StopError{Reason: "kafka", Detail: "reading the committed offset: " + c.Err.Error()}
}

// Schemas returns the schema registry.
func (p *ports) Schemas() pipeline.Schemas { return p.schemas }

// TopicID returns the id of a topic. It is zero if the topic does not exist. An error that a retry cannot help is a
// *record.StopError.
func (p *ports) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	topics, err := p.client.Topics(ctx, topic)
	switch {
	case err != nil:
		return [16]byte{}, err
	case topics[0].Err == nil:
		return topics[0].ID, nil
	case kafka.Classify(topics[0].Err) == kafka.StopPartition, kafka.Classify(topics[0].Err) == kafka.StopProgram:
		return [16]byte{}, &record.StopError{Reason: "kafka", Detail: topics[0].Err.Error()}
	}
	return [16]byte{}, nil
}

// owned returns the partitions that this process has claimed, for the keeper of their rollups. Done comes from the worker and not
// from Kafka, because another program may have committed the offset in Kafka.
func owned(statuses []*pipeline.Status, clusterID, group string, now time.Time) (all []keeper.Partition) {
	for _, s := range statuses {
		if s.Claim == (claim.Token{}) || s.Undurable < 0 {
			continue
		}
		p := keeper.Partition{
			Owned: sink.Owned{
				Source: timeseries.Source{Topic: s.Topic, TopicID: s.TopicID, Partition: s.Number},
				ID:     claim.DocumentID(clusterID, s.Topic, s.Number), Group: group, Claim: s.Claim,
			},
			Done: s.Undurable,
		}
		p.Age, p.Known = s.Freshness(now)
		all = append(all, p)
	}
	return all
}

// member passes the decisions of the group to the consumer.
type member struct {
	consumer *pipeline.Consumer
	log      *slog.Logger
	// stopping reports whether the process was asked to stop.
	stopping func() bool
}

// Assigned starts a generation.
func (m *member) Assigned(g *group.Generation) {
	assignments := make([]pipeline.Assignment, 0, len(g.Partitions))
	for _, p := range g.Partitions {
		assignments = append(assignments, pipeline.Assignment{
			Partition: p.Partition, Assigned: pipeline.Assigned{TopicID: p.TopicID, Beside: p.Beside},
		})
	}
	m.log.Info("assigned", "generation", g.ID, "partitions", len(assignments))
	m.consumer.Assigned(generation{g}, assignments, g.Follows)
}

// generation is a generation of the group that tells the workers which failed commits are an outage.
type generation struct{ *group.Generation }

// Commit commits offsets. Answers about the end of the generation, or about a topic that is gone, become claim.ErrLapsed.
func (g generation) Commit(ctx context.Context, commits []record.Commit) ([]error, error) {
	results, err := g.Generation.Commit(ctx, commits)
	for i := range results {
		results[i] = ofCommit(results[i])
	}
	return results, ofCommit(err)
}

// ofCommit returns the error of a commit, or claim.ErrLapsed if it is no outage.
func ofCommit(err error) error {
	switch class := kafka.Classify(err); {
	case class == kafka.GenerationOver, class == kafka.LookAtMetadata, errors.Is(err, kafkago.RebalanceInProgress), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", claim.ErrLapsed, err)
	}
	return err
}

// Revoke hands all partitions over.
func (m *member) Revoke(ctx context.Context, _ *group.Generation) {
	m.consumer.Revoke(ctx, m.stopping())
}

// Lost drops all partitions.
func (m *member) Lost(*group.Generation) { m.consumer.Lost() }
