package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

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

// letterTopic tells the status page which letters are written. Without a producer no letter is ever made.
type letterTopic struct {
	*dlq.Producer
	written func([]record.Letter)
}

// Produce tells what is written.
func (t letterTopic) Produce(ctx context.Context, letters []record.Letter) (written int, err error) {
	written, err = t.Producer.Produce(ctx, letters)
	t.written(letters[:written])
	return written, err
}

// ports opens what workers read and write.
type ports struct {
	client  *kafka.Client
	store   func(topic string) *sink.Store
	letters letterTopic
	schemas pipeline.Schemas
	group   string
	owner   string

	mu sync.Mutex
	// open are those whose sessions must be ended when they are opened again.
	open map[record.Partition]*sink.Partition
}

// Open ends the session of the partition's former store.
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

// Letters is the same for all topics: a letter names its own.
func (p *ports) Letters(string) pipeline.Letters { return p.letters }

// Committed asks the group's coordinator. What trying again does not help is a *record.StopError.
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

// Schemas is the registry.
func (p *ports) Schemas() pipeline.Schemas { return p.schemas }

// TopicID is zero while the topic does not exist. What trying again does not help is a *record.StopError.
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

// owned are the partitions that a process has claimed, for the keeper of their rollups. What is done is what the worker has done: what
// Kafka says was committed may be another program's.
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

// member passes what the group decides on to the consumer.
type member struct {
	consumer *pipeline.Consumer
	log      *slog.Logger
	// stopping reports whether the process was asked to end.
	stopping func() bool
}

// Assigned begins a generation.
func (m *member) Assigned(g *group.Generation) {
	assignments := make([]pipeline.Assignment, 0, len(g.Partitions))
	for _, p := range g.Partitions {
		assignments = append(assignments, pipeline.Assignment{
			Partition: p.Partition, Assigned: pipeline.Assigned{TopicID: p.TopicID, Beside: p.Beside},
		})
	}
	m.log.Info("assigned", "generation", g.ID, "partitions", len(assignments))
	m.consumer.Assigned(g, assignments, g.Follows)
}

// Revoke hands all partitions over.
func (m *member) Revoke(ctx context.Context, _ *group.Generation) {
	m.consumer.Revoke(ctx, m.stopping())
}

// Lost drops all partitions.
func (m *member) Lost(*group.Generation) { m.consumer.Lost() }
