package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waterwheel/claim"
	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
)

// checkGroup looks at what the group has committed for a topic.
func checkGroup(ctx context.Context, c config.Config, log *topicLog, topic string, spans []dlq.Span, found *findings) {
	subject := "group " + c.Kafka.GroupID
	var members []kafka.Member
	err := kafka.Patiently(ctx, func() (err error) { // a fresh cluster is still choosing the group's coordinator
		members, err = log.client.Members(ctx, c.Kafka.GroupID)
		return err
	})
	if err != nil {
		found.failed(subject, err)
		return
	}
	if rights, err := log.client.GroupRights(ctx, c.Kafka.GroupID); err == nil && !rights.Allow(kafka.Read) {
		found.wrong(subject, "grant this user READ on the group", "may be seen and not joined (KAFKA_GROUP_ID)")
		return
	}
	for _, m := range members {
		if !m.Ours {
			found.wrong(subject, "end it or give it another group id; or use another KAFKA_GROUP_ID",
				"another program is a member: %s; what it commits would be skipped, so run reads nothing beside it", m)
		}
	}
	committed, err := committedOf(ctx, c, log, topic, spans)
	if err != nil {
		found.failed(subject, fmt.Errorf("reading what is committed for %s: %w", topic, err))
		return
	}
	ours := claim.Provenance{
		ClusterID: log.client.ClusterID(), TopicID: log.ids[topic], Namespace: c.MongoDB.Database + "." + c.MongoDB.SeriesFor(topic),
	}
	commits := commits{subject: subject, policy: c.Kafka.OutOfRange, ours: ours}
	for _, s := range spans {
		a, ok := committed[s.Partition]
		if !ok || a.Committed < 0 {
			continue
		}
		if a.Committed > s.End { // behind an open transaction perhaps
			high, err := log.client.HighWatermark(ctx, topic, s.Partition)
			if err != nil {
				found.failed(subject, fmt.Errorf("asking for the end of %s: %w", s.Place, err))
				continue
			}
			s.End = max(s.End, high)
		}
		commits.judge(s, a, found)
	}
	if commits.known == 0 {
		found.ok(subject, "%d members; nothing committed for %s yet: it will begin at %s", len(members), topic, startText(c))
		return
	}
	found.ok(subject, "%d members; committed for %d of %d partitions of %s, %d offsets behind", len(members), commits.known, len(spans), topic, commits.lag)
}

// committedOf is what the group has committed for the partitions of a topic.
func committedOf(ctx context.Context, c config.Config, log *topicLog, topic string, spans []dlq.Span) (map[int32]kafka.Assigned, error) {
	partitions := make([]int32, len(spans))
	for i, s := range spans {
		partitions[i] = s.Partition
	}
	committed := map[int32]kafka.Assigned{}
	err := kafka.Patiently(ctx, func() error {
		answers, err := log.client.Committed(ctx, c.Kafka.GroupID, topic, partitions)
		for _, a := range answers {
			err = errors.Join(err, a.Err)
			committed[a.Partition] = a
		}
		return err
	})
	return committed, err
}

// commits judges what a group has committed, as run does when it begins.
type commits struct {
	subject string
	policy  string // KAFKA_OUT_OF_RANGE
	ours    claim.Provenance
	known   int
	lag     int64 // in offsets
}

func (k *commits) judge(s dlq.Span, a kafka.Assigned, found *findings) {
	k.known++
	have, ok := claim.ParseProvenance(a.Metadata)
	here := ok && have.ClusterID == k.ours.ClusterID // else a reset, or a mirror's copy: it is taken as it is
	if here && have.Namespace != k.ours.Namespace {
		found.wrong(k.subject, "use another KAFKA_GROUP_ID; or, if you changed the collection on purpose, stop the consumers and reset the group with kafka-consumer-groups.sh --reset-offsets",
			"offset %d of %s was committed by a pipeline that writes %s, the settings name %s: run would stop the partition (other_collection)",
			a.Committed, s.Place, have.Namespace, k.ours.Namespace)
		return
	}
	offset := a.Committed
	if here && have.TopicID != k.ours.TopicID { // of a topic deleted since: run begins at the log's start
		offset = s.First
	}
	switch {
	case offset > s.End:
		k.beyond(s, offset, found)
	case offset < s.First:
		found.warn(k.subject, "keep records longer (retention.ms), and the consumer running", "%d records of %s were deleted before they were read", s.First-offset, s.Place)
	}
	k.lag += max(0, s.End-max(offset, s.First))
}

// beyond is about an offset that the log does not reach.
func (k *commits) beyond(s dlq.Span, offset int64, found *findings) {
	text := fmt.Sprintf("offset %d is committed for %s, which ends at %d", offset, s.Place, s.End)
	if k.policy == string(claim.StopOutOfRange) {
		found.wrong(k.subject, "reset the group with kafka-consumer-groups.sh, or set KAFKA_OUT_OF_RANGE to earliest or latest", "%s", text)
		return
	}
	found.warn(k.subject, "look why: the log was truncated (unclean leader election), or the offset was set by hand",
		"%s: run goes on at its %s record (KAFKA_OUT_OF_RANGE)", text, k.policy)
}

func startText(c config.Config) string {
	if c.Kafka.Start.Policy == "time" {
		return c.Kafka.Start.Time.Format(time.RFC3339) + " (KAFKA_START)"
	}
	return "the " + c.Kafka.Start.Policy + " record (KAFKA_START)"
}
