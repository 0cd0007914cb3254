package connect

import (
	"context"
	"errors"

	"waterwheel/config"
	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// Lost returns the error for the collection of a topic that was set up when the process began, and is not any more.
func (n *Connections) Lost(topic string) *claim.LostContentError {
	return &claim.LostContentError{
		Namespace: Namespace(n.Config, topic), Group: n.Config.Kafka.GroupID, Committed: record.Place{Partition: record.Partition{Topic: topic}},
	}
}

// refuseEmpty returns a *claim.LostContentError if the collection of a topic has lost its content. If the user may not read the
// group's offsets, refuseEmpty learns nothing.
func (n *Connections) refuseEmpty(ctx context.Context, c config.Config, topic string) error {
	_, err := collection.ReadDefinition(ctx, collection.Of(n.Database, c.SeriesFor(topic)).Ports().Options)
	if !errors.Is(err, collection.ErrNotSetUp) {
		return err
	}
	topics, err := n.Kafka.Topics(ctx, topic)
	if err == nil {
		err = topics[0].Err
	}
	if err != nil {
		return mayPass(err)
	}
	var partitions []record.Partition
	for _, p := range topics[0].Partitions {
		partitions = append(partitions, record.Partition{Topic: topic, Number: p.ID})
	}
	answers, err := n.Kafka.Committed(ctx, c.Kafka.GroupID, partitions)
	if err != nil {
		if kafka.Classify(err) == kafka.Retry {
			return mayPass(err)
		}
		return nil
	}
	committed := make([]claim.Committed, len(answers))
	for i, a := range answers {
		committed[i] = claim.Committed{Offset: -1}
		if a.Err == nil {
			committed[i] = claim.Committed{Offset: a.Offset, Metadata: a.Metadata, Consumed: a.Consumed()}
		}
	}
	ours := claim.Provenance{ClusterID: n.Kafka.ClusterID(), TopicID: topics[0].ID, Namespace: Namespace(n.Config, topic)}
	return ours.RefuseEmpty(c.Kafka.GroupID, partitions, committed)
}
