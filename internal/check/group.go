package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"waterwheel/dlq"
	"waterwheel/internal/claim"
	"waterwheel/internal/kafka"
	"waterwheel/internal/kafka/group"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
	"waterwheel/sink"
)

// claims checks which groups have claimed a topic's partitions. run stops partitions that another group has claimed. claims also
// records the partition documents. Without Kafka it is unknown which documents apply.
func (l *look) claims(of Topic, documents []sink.PartitionDocument) {
	subject := "time series " + of.Series
	partitions := map[string][]string{} // partitions of other groups
	ours := 0
	for _, d := range documents {
		if l.clusterID == "" || d.ClusterID != l.clusterID || d.Topic != of.Name {
			continue
		}
		l.documents[record.Partition{Topic: d.Topic, Number: d.Partition}] = d.Document
		if d.Group == l.GroupID {
			ours++
		} else {
			partitions[d.Group] = append(partitions[d.Group], fmt.Sprint(d.Partition))
		}
	}
	for _, group := range slices.Sorted(maps.Keys(partitions)) {
		l.Wrong(subject, fmt.Sprintf("use another MONGODB_COLLECTION; or stop the consumers of the group %q permanently, then run `waterwheel collection takeover --dry-run`, and again without --dry-run", group),
			"the group %q writes partitions %s of %s, but the settings name the group %q: run would stop these partitions (other_group)",
			group, strings.Join(partitions[group], ", "), of.Name, l.GroupID)
	}
	if ours > 0 {
		l.OK(subject, "%s of %s %s claimed by the group %s", words.Count(ours, "partition"), of.Name, words.Form(ours, "is", "are"), l.GroupID)
	}
}

// group checks the members of the group, and where each partition would begin.
func (l *look) group(ctx context.Context) {
	subject := "group " + l.GroupID
	// A fresh cluster may still be choosing the group's coordinator.
	members, err := kafka.Answer(ctx, func() ([]kafka.Member, error) { return l.Kafka.Members(ctx, l.GroupID) })
	if err != nil {
		l.Failed(subject, err)
		return
	}
	if rights, err := l.Kafka.GroupRights(ctx, l.GroupID); err == nil && !rights.Allow(kafka.Read) {
		l.Wrong(subject, "grant this user READ on the group", "this user can see the group but may not join it (KAFKA_GROUP_ID)")
		return
	}
	for _, m := range members {
		if !group.IsOurs(m) {
			l.Wrong(subject, "stop the other program, or give it another group id; or set another KAFKA_GROUP_ID here",
				"another program is a member of the group: %s; run reads nothing until the other program leaves, because records that the other program commits would never be stored", m)
		}
	}
	l.OK(subject, "%s", words.Count(len(members), "member"))
	for _, topic := range l.Topics {
		if spans := l.spans[topic.Name]; len(spans) > 0 {
			l.starts(ctx, subject, topic, spans)
		}
	}
}

// starts checks where the partitions of a topic would begin.
func (l *look) starts(ctx context.Context, subject string, topic Topic, spans []dlq.Span) {
	partitions := make([]record.Partition, len(spans))
	for i, s := range spans {
		partitions[i] = s.Partition
	}
	answers, err := l.Kafka.Committed(ctx, l.GroupID, partitions)
	if err != nil {
		l.Failed(subject, fmt.Errorf("reading the committed offsets of %s: %w", topic.Name, err))
		return
	}
	committed := make([]claim.Committed, len(answers))
	for i, a := range answers {
		committed[i] = claim.Committed{Offset: a.Offset, Metadata: a.Metadata, Consumed: a.Consumed()}
	}
	pipeline := claim.Provenance{ClusterID: l.clusterID, Namespace: topic.Namespace}
	if pipeline.TopicID, err = l.Kafka.TopicID(ctx, topic.Name); err != nil {
		l.Failed(subject, fmt.Errorf("reading the id of %s: %w", topic.Name, err))
		return
	}
	if l.empty[topic.Name] { // the collection is not set up, or has lost its content
		if err := pipeline.RefuseEmpty(l.GroupID, partitions, committed); err != nil {
			l.Wrong("time series "+topic.Series, "", "run would not start: %v", err)
		}
	}
	known, lag := 0, int64(0)
	for i, s := range spans {
		f := claim.Facts{
			Partition: s.Number, Pipeline: pipeline, Committed: committed[i], Document: l.documents[s.Partition], OutOfRange: l.OutOfRange,
			Bounds: record.Bounds{First: s.First, End: s.End},
		}
		if f.Committed.Offset < 0 && !f.Document.Found {
			continue
		}
		if f.Bounds.ExceededBy(f.Committed.Offset) { // records have arrived since, or a transaction is open
			if f.Bounds.High, err = l.Kafka.HighWatermark(ctx, s.Partition); err != nil {
				l.Failed(subject, fmt.Errorf("reading the end offset of %s: %w", s.Partition, err))
				continue
			}
		}
		known++
		lag += l.start(subject, s.Partition, f)
	}
	if known == 0 {
		l.OK(subject, "no offset is committed for %s yet: run will begin at %s", topic.Name, l.Begins)
		return
	}
	l.OK(subject, "offsets are committed for %d of %s of %s, lag %s", known, words.Count(len(spans), "partition"), topic.Name, words.Count(lag, "offset"))
}

// start reports what run would do with a partition, and returns how many offsets it would be behind.
func (l *look) start(subject string, place record.Partition, f claim.Facts) (lag int64) {
	start, err := f.Start()
	if stop, ok := errors.AsType[*record.StopError](err); ok {
		l.Wrong(subject, "", "run would stop %s (%s): %s", place, stop.Reason, stop.Detail)
		return 0
	}
	if start.Beyond > 0 {
		l.Warn(subject, "find the cause: the log was truncated (unclean leader election), or the offset was set by hand",
			"the start offset %d of %s is beyond the end offset %d: run continues at the %s record (KAFKA_OUT_OF_RANGE)",
			f.Bounds.End+start.Beyond, place, f.Bounds.End, f.OutOfRange)
	}
	if start.Lost > 0 {
		l.Warn(subject, "raise retention.ms, and keep the consumer running",
			"%s of %s %s deleted before they were read", words.Count(start.Lost, "record"), place, words.Form(start.Lost, "was", "were"))
	}
	return max(0, f.Bounds.End-start.Offset)
}
