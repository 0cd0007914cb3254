package connect

import (
	"context"
	"errors"

	"waterwheel/internal/claim"
	"waterwheel/internal/collection"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

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
