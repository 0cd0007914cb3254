package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/dlq"
	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
	"waterwheel/internal/words"
)

const (
	// shortRetention is a retention that an outage may exceed.
	shortRetention = 24 * time.Hour
	// timeFormat is the format of times in tables.
	timeFormat = "2006-01-02T15:04:05.000Z"
	// aheadTolerated is how far a record's timestamp may be ahead of the local clock.
	aheadTolerated = time.Minute
)

// topics checks the topics, and records those that can be read.
func (l *look) topics(ctx context.Context) {
	as := "without a login"
	if l.User != "" {
		as = "as " + l.User
	}
	l.OK("Kafka", "connected %s, cluster %s", as, l.clusterID)
	for _, topic := range l.Topics {
		spans, err := l.topic(ctx, topic.Name)
		if err != nil {
			l.Failed("topic "+topic.Name, err)
		}
		if spans != nil {
			l.spans[topic.Name] = spans
			l.longest = max(l.longest, l.configuration(ctx, topic.Name))
		}
	}
}

// topic checks a topic's partitions, and reads the last record of each. Nil means that the topic cannot be read.
func (l *look) topic(ctx context.Context, topic string) ([]dlq.Span, error) {
	subject := "topic " + topic
	answers, err := l.Kafka.Topics(ctx, topic)
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return nil, err
	}
	if !answers[0].Rights.Allow(kafka.Read) {
		l.Wrong(subject, "grant this user READ on the topic", "this user can see the topic but may not read it")
		return nil, nil
	}
	var leaderless []string
	for _, p := range answers[0].Partitions {
		if p.Leader < 0 || p.Err != nil {
			leaderless = append(leaderless, strconv.Itoa(int(p.ID)))
		}
	}
	if leaderless != nil {
		l.Wrong(subject, "restart the brokers that have replicas of these partitions", "partitions %s have no leader", strings.Join(leaderless, ", "))
		return nil, nil
	}
	spans, err := dlq.Spans(ctx, l.Kafka, []string{topic})
	if err != nil {
		return nil, err
	}
	newest := int64(-1)
	for _, s := range spans {
		at, err := l.lastTimestamp(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("reading the last record of %s: %w", s.Partition, err)
		}
		newest = max(newest, at)
	}
	if newest < 0 {
		l.OK(subject, "%s, no records", words.Count(len(spans), "partition"))
		return spans, nil
	}
	l.OK(subject, "%s, %s, newest record of %s", words.Count(len(spans), "partition"), words.Count(dlq.Offsets(spans), "offset"), time.UnixMilli(newest).UTC().Format(timeFormat))
	if ahead := time.Until(time.UnixMilli(newest)); ahead > aheadTolerated {
		l.Warn(subject, "correct the producers' clocks, and check the unit of the records' timestamps (milliseconds)",
			"the newest record's timestamp is %v ahead of the clock of this machine", ahead.Round(time.Second))
	}
	return spans, nil
}

// lastTimestamp returns the timestamp of a partition's last record, or -1 if there is none.
func (l *look) lastTimestamp(ctx context.Context, s dlq.Span) (int64, error) {
	last := int64(-1)
	if s.First >= s.End {
		return last, nil
	}
	_, err := l.Kafka.Scan(ctx, s.Partition, s.End-1, s.End, func(r *record.Record) error {
		last = r.Timestamp
		return nil
	})
	return last, err
}

// configuration checks how a topic's configuration affects the guarantee, and returns the maximum size of its records.
func (l *look) configuration(ctx context.Context, topic string) (longest int) {
	subject := "topic " + topic
	t, ok := l.configured(ctx, subject, topic)
	if !ok {
		return 0
	}
	before := len(*l.Findings)
	if t.Values["unclean.leader.election.enable"] == "true" {
		l.Wrong(subject, "set unclean.leader.election.enable=false",
			"unclean leader election is on: Kafka may use an offset again for another record, and waterwheel then skips that record as already stored")
	}
	l.durability(subject, t)
	if strings.Contains(t.Values["cleanup.policy"], "compact") {
		l.Warn(subject, "set cleanup.policy=delete", "the topic is compacted: if several measurements have the same key, Kafka may delete the older ones before they are read")
	}
	if kept, ok := milliseconds(t.Values["retention.ms"]); ok && kept >= 0 && kept < shortRetention {
		l.Warn(subject, "set retention.ms higher", "records are deleted after %s: a longer outage loses records", words.Span(kept))
	}
	if len(*l.Findings) == before {
		l.OK(subject, "%s, min.insync.replicas=%s, unclean leader election is off", words.Count(t.Replicas, "replica"), t.Values["min.insync.replicas"])
	}
	longest, _ = strconv.Atoi(t.Values["max.message.bytes"])
	return longest
}

// configured reads a topic's configuration.
func (l *look) configured(ctx context.Context, subject, topic string) (kafka.Configuration, bool) {
	t, err := l.Kafka.Configuration(ctx, topic)
	if err != nil {
		l.Note(subject, "the configuration of the topic cannot be read (this needs DESCRIBE_CONFIGS): %v", err)
	}
	return t, err == nil
}

func milliseconds(value string) (time.Duration, bool) {
	ms, err := strconv.ParseInt(value, 10, 64)
	return time.Duration(min(ms, math.MaxInt64/time.Millisecond.Nanoseconds())) * time.Millisecond, err == nil
}

// durability warns about too few replicas.
func (l *look) durability(subject string, t kafka.Configuration) {
	least, err := strconv.Atoi(t.Values["min.insync.replicas"])
	switch {
	case t.Replicas == 1:
		l.Warn(subject, "use three replicas and min.insync.replicas=2 where records must not be lost", "one replica: if a broker's disk is lost, records are lost")
	case t.InSync < t.Replicas:
		l.Warn(subject, "check which broker with a replica is down or slow", "%d of %s %s in sync", t.InSync, words.Count(t.Replicas, "replica"), words.Form(t.InSync, "is", "are"))
	case err == nil && least >= t.Replicas:
		l.Warn(subject, "set min.insync.replicas to the number of replicas minus one", "min.insync.replicas=%d of %s: nothing can be written when one broker is down", least, words.Count(t.Replicas, "replica"))
	case err == nil && least < 2:
		l.Warn(subject, "set min.insync.replicas=2", "min.insync.replicas=%d: a record that only one broker has acknowledged is lost with this broker", least)
	}
}

// deadLetters checks the dead-letter topics.
func (l *look) deadLetters(ctx context.Context) {
	if l.DeadLetters == nil {
		l.Warn("dead letters", "set DLQ_TOPIC", "DLQ_TOPIC is empty: a bad record stops its partition")
		return
	}
	topics, err := l.Kafka.Topics(ctx, l.DeadLetters.Topics()...)
	if err != nil {
		l.Failed("dead letters", fmt.Errorf("reading metadata of the dead-letter topics: %w", err))
		return
	}
	for _, topic := range topics {
		subject := "dead letters " + topic.Name
		switch {
		case kafka.Classify(topic.Err) == kafka.LookAtMetadata:
			l.deadLettersToCome(ctx, subject, topic.Name)
		case kafka.Classify(topic.Err) == kafka.StopPartition:
			l.Wrong(subject, "grant this user WRITE on the topic, and CREATE if DLQ_CREATE=true should create the topic", "this user may not see the topic")
		case !topic.Rights.Allow(kafka.Write):
			l.Wrong(subject, "grant this user WRITE on the topic", "this user can see the topic but may not write to it")
		case !topic.Rights.Allow(kafka.Read):
			l.OK(subject, "%s; this user can write dead letters but not read them: grant READ on the topic for the commands dlq and verify", words.Count(len(topic.Partitions), "partition"))
		default:
			l.deadLetterTopic(ctx, subject, topic.Name)
		}
	}
}

// deadLettersToCome checks whether a missing dead-letter topic will be created.
func (l *look) deadLettersToCome(ctx context.Context, subject, topic string) {
	if !l.DeadLetters.Create {
		l.Wrong(subject, "create the topic, or set DLQ_CREATE=true", "the topic does not exist")
		return
	}
	err := kafka.Patiently(ctx, func() error {
		return l.Kafka.TryCreate(ctx, topic, l.DeadLetters.Partitions, l.DeadLetters.Replication)
	})
	switch {
	case err == nil:
		l.OK(subject, "the topic does not exist yet: init and run create it")
	case errors.Is(err, kafkago.TopicAuthorizationFailed), errors.Is(err, kafkago.ClusterAuthorizationFailed):
		l.Wrong(subject, "grant this user CREATE and WRITE on the topic; or create the topic, and set DLQ_CREATE=false",
			"the topic does not exist, and this user may not create it (DLQ_CREATE)")
	default:
		l.Failed(subject, fmt.Errorf("the topic does not exist, and cannot be created: %w", err))
	}
}

// deadLetterTopic checks a dead-letter topic that can be written and read.
func (l *look) deadLetterTopic(ctx context.Context, subject, topic string) {
	spans, err := dlq.Spans(ctx, l.Kafka, []string{topic})
	if err != nil {
		l.Failed(subject, err)
		return
	}
	l.OK(subject, "%s, %s; \"waterwheel dlq stats\" counts the dead letters", words.Count(len(spans), "partition"), words.Count(dlq.Offsets(spans), "offset"))
	t, ok := l.configured(ctx, subject, topic)
	if !ok {
		return
	}
	l.durability(subject, t)
	l.retention(subject, t.Values)
	if strings.Contains(t.Values["cleanup.policy"], "compact") {
		l.Wrong(subject, "set cleanup.policy=delete", "the topic is compacted: dead letters whose records have the same key are lost")
	}
	if size, err := strconv.Atoi(t.Values["max.message.bytes"]); err == nil && size < l.longest {
		l.Warn(subject, "set max.message.bytes of the dead-letter topic higher than max.message.bytes of the source topics",
			"max.message.bytes=%d is less than the %d of the source topics: long dead letters are truncated and cannot be redriven", size, l.longest)
	}
}

// retention checks how long a dead-letter topic keeps letters.
func (l *look) retention(subject string, values map[string]string) {
	kept, ok := milliseconds(values["retention.ms"])
	switch {
	case !ok:
	case kept < 0:
		l.Note(subject, "retention.ms=-1: Kafka never deletes dead letters because of their age")
	case values["message.timestamp.type"] != "LogAppendTime":
		l.Warn(subject, "set message.timestamp.type=LogAppendTime", "dead letters have the timestamps of their records, so retention.ms=%s deletes dead letters of old records immediately", values["retention.ms"])
	default:
		l.OK(subject, "dead letters are kept for %s", words.Span(kept))
	}
}
