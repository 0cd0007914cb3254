package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/cmd/consumer/internal/text"
	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
)

const (
	// shortRetention is a retention that an outage may outlast.
	shortRetention = 24 * time.Hour
	// aheadTolerated is how far a record's timestamp may be ahead of the clock here.
	aheadTolerated = time.Minute
)

// checkKafka looks at the topics, the group and the dead-letter topics, and returns the topics that can be read.
func checkKafka(ctx context.Context, c config.Config, log *topicLog, found *findings) []string {
	as := "without a login"
	if c.Security.SASLUsername != "" {
		as = "as " + c.Security.SASLUsername
	}
	found.ok("Kafka", "connected %s, cluster %s", as, log.client.ClusterID())
	var present []string
	largest := 0
	for _, topic := range c.Kafka.Topics {
		spans, ok := checkTopic(ctx, log, topic, found)
		if !ok {
			continue
		}
		present = append(present, topic)
		largest = max(largest, checkConfiguration(ctx, log, topic, found))
		checkGroup(ctx, c, log, topic, spans, found)
	}
	checkDeadLetters(ctx, c, log, largest, found)
	return present
}

// checkTopic looks at a topic's partitions and reads the last record of each.
func checkTopic(ctx context.Context, log *topicLog, topic string, found *findings) ([]dlq.Span, bool) {
	subject := "topic " + topic
	answers, err := log.client.Topics(ctx, topic)
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		found.failed(subject, err)
		return nil, false
	}
	if !answers[0].Rights.Allow(kafka.Read) {
		found.failed(subject, unreadableTopic(topic))
		return nil, false
	}
	var leaderless []string
	for _, p := range answers[0].Partitions {
		if p.Leader < 0 || p.Err != nil {
			leaderless = append(leaderless, strconv.Itoa(int(p.ID)))
		}
	}
	if leaderless != nil {
		found.wrong(subject, "bring the brokers back that hold them", "no leader for partitions %s", strings.Join(leaderless, ", "))
		return nil, false
	}
	spans, err := dlq.Spans(ctx, log, []string{topic})
	if err != nil {
		found.failed(subject, err)
		return nil, false
	}
	records, newest := int64(0), int64(-1)
	for _, s := range spans {
		records += s.End - s.First
		at, err := lastTimestamp(ctx, log, s)
		if err != nil {
			found.failed(subject, fmt.Errorf("reading the last record of %s: %w", s.Place, err))
			return nil, false
		}
		newest = max(newest, at)
	}
	if newest < 0 {
		found.ok(subject, "%d partitions, no records", len(spans))
		return spans, true
	}
	age := time.Since(time.UnixMilli(newest))
	found.ok(subject, "%d partitions, %d offsets, newest record of %s", len(spans), records, text.Time(time.UnixMilli(newest)))
	if age < -aheadTolerated {
		found.warn(subject, "set the producers' clocks right, and look at the unit of the records' timestamps (milliseconds)",
			"the newest record's timestamp is %v ahead of the clock here", -age.Round(time.Second))
	}
	return spans, true
}

// lastTimestamp is the timestamp of a partition's last record, -1 when there is none.
func lastTimestamp(ctx context.Context, log *topicLog, s dlq.Span) (int64, error) {
	last := int64(-1)
	if s.First >= s.End {
		return last, nil
	}
	err := log.Read(ctx, s.Topic, s.Partition, s.End-1, s.End, func(r *dlq.Record) error {
		last = r.Timestamp
		return nil
	})
	return last, err
}

// checkConfiguration looks at what a topic's configuration does to the guarantee, and returns its longest record.
func checkConfiguration(ctx context.Context, log *topicLog, topic string, found *findings) (longest int) {
	subject := "topic " + topic
	t, err := log.client.Configuration(ctx, topic)
	if err != nil {
		found.note(subject, "its configuration cannot be read (that needs DESCRIBE_CONFIGS): %v", err)
		return 0
	}
	before := len(found.list)
	if t.Values["unclean.leader.election.enable"] == "true" {
		found.wrong(subject, "set unclean.leader.election.enable=false",
			"unclean leader election: offsets may come twice with other records, which are then taken for stored")
	}
	durability(subject, t, found)
	if strings.Contains(t.Values["cleanup.policy"], "compact") {
		found.warn(subject, "set cleanup.policy=delete", "the topic is compacted: of measurements with the same key the older ones vanish before they are read")
	}
	if ms, err := strconv.ParseInt(t.Values["retention.ms"], 10, 64); err == nil && ms >= 0 && time.Duration(ms)*time.Millisecond < shortRetention {
		found.warn(subject, "set retention.ms higher", "records are deleted after %v: an outage that lasts longer loses some", time.Duration(ms)*time.Millisecond)
	}
	if len(found.list) == before {
		found.ok(subject, "%d replicas, min.insync.replicas=%s, unclean leader election is off", t.Replicas, t.Values["min.insync.replicas"])
	}
	longest, _ = strconv.Atoi(t.Values["max.message.bytes"])
	return longest
}

// durability warns about replicas too few.
func durability(subject string, t kafka.Configuration, found *findings) {
	least, err := strconv.Atoi(t.Values["min.insync.replicas"])
	switch {
	case t.Replicas == 1:
		found.warn(subject, "use three replicas and min.insync.replicas=2 where records must not be lost", "one replica: the loss of a broker's disk loses records")
	case t.InSync < t.Replicas:
		found.warn(subject, "look at the brokers", "%d of %d replicas are in sync", t.InSync, t.Replicas)
	case err == nil && least >= t.Replicas:
		found.warn(subject, "set min.insync.replicas one below the number of replicas", "min.insync.replicas=%d of %d replicas: nothing can be written when one broker is down", least, t.Replicas)
	case err == nil && least < 2:
		found.warn(subject, "set min.insync.replicas=2", "min.insync.replicas=%d: a record acknowledged by one broker alone is lost with it", least)
	}
}

// checkDeadLetters looks at the dead-letter topics. longest is the longest record of the topics read.
func checkDeadLetters(ctx context.Context, c config.Config, log *topicLog, longest int, found *findings) {
	if c.DLQ.Topic == "" {
		found.warn("dead letters", "set DLQ_TOPIC", "DLQ_TOPIC is empty: a bad record stops its partition")
		return
	}
	o := letterOptions(c)
	topics, err := log.client.Topics(ctx, o.Topics()...)
	if err != nil {
		found.failed("dead letters", fmt.Errorf("looking at the topics: %w", err))
		return
	}
	for _, topic := range topics {
		subject := "dead letters " + topic.Name
		switch {
		case kafka.Classify(topic.Err) == kafka.LookAtMetadata:
			checkMissingLetters(ctx, c, log, topic.Name, found)
		case kafka.Classify(topic.Err) == kafka.StopPartition:
			found.wrong(subject, mayWriteLetters+", and CREATE if DLQ_CREATE is to make it", "may not be seen by this user")
		case !topic.Rights.Allow(kafka.Write):
			found.failed(subject, errors.Join(unwritable([]kafka.Topic{topic})...))
		case !topic.Rights.Allow(kafka.Read):
			found.ok(subject, "%d partitions; letters can be written, and not be read by this user: dlq and verify need READ", len(topic.Partitions))
		default:
			checkDeadLetterTopic(ctx, log, topic.Name, longest, found)
		}
	}
}

// checkMissingLetters looks whether a dead-letter topic that does not exist will be made.
func checkMissingLetters(ctx context.Context, c config.Config, log *topicLog, topic string, found *findings) {
	subject := "dead letters " + topic
	if !c.DLQ.Create {
		found.wrong(subject, "create it, or set DLQ_CREATE=true", "does not exist")
		return
	}
	err := kafka.Patiently(ctx, func() error { return log.client.TryCreate(ctx, topic, c.DLQ.Partitions, c.DLQ.Replication) })
	switch {
	case err == nil:
		found.ok(subject, "does not exist yet: init and run create it")
	case errors.Is(err, kafkago.TopicAuthorizationFailed), errors.Is(err, kafkago.ClusterAuthorizationFailed):
		found.wrong(subject, mayCreateLetters, "does not exist, and this user may not create it (DLQ_CREATE)")
	default:
		found.failed(subject, fmt.Errorf("it does not exist, and cannot be created: %w", err))
	}
}

func checkDeadLetterTopic(ctx context.Context, log *topicLog, topic string, longest int, found *findings) {
	subject := "dead letters " + topic
	spans, err := dlq.Spans(ctx, log, []string{topic})
	if err != nil {
		found.failed(subject, err)
		return
	}
	var letters int64
	for _, s := range spans {
		letters += s.End - s.First
	}
	found.ok(subject, "%d partitions, %d offsets; \"consumer dlq stats\" counts the letters", len(spans), letters)
	t, err := log.client.Configuration(ctx, topic)
	if err != nil {
		found.note(subject, "its configuration cannot be read (that needs DESCRIBE_CONFIGS): %v", err)
		return
	}
	durability(subject, t, found)
	checkRetention(subject, t.Values, found)
	if strings.Contains(t.Values["cleanup.policy"], "compact") {
		found.wrong(subject, "set cleanup.policy=delete", "the topic is compacted: letters whose records have the same key are lost")
	}
	if size, err := strconv.Atoi(t.Values["max.message.bytes"]); err == nil && size < longest {
		found.warn(subject, "set its max.message.bytes higher than that of the topics read",
			"max.message.bytes=%d is less than the %d of the topics read: long letters are cut and cannot be driven back", size, longest)
	}
}

// checkRetention looks at how long a dead-letter topic keeps letters.
func checkRetention(subject string, values map[string]string, found *findings) {
	kept := values["retention.ms"]
	ms, err := strconv.ParseInt(kept, 10, 64)
	switch {
	case err != nil:
	case ms < 0:
		found.note(subject, "it keeps letters until somebody deletes them, however many are sent: retention.ms=-1")
	case values["message.timestamp.type"] != "LogAppendTime":
		found.warn(subject, "set message.timestamp.type=LogAppendTime", "letters have their records' times, so that retention.ms=%s deletes letters of old records at once", kept)
	default:
		found.ok(subject, "it keeps letters for %s", time.Duration(ms)*time.Millisecond)
	}
}
