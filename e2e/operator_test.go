package e2e_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// These are an operator's actions on a stream, by hand or with Kafka's own tools. The group has no members meanwhile.

const groupTool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

// admin sends one request to Kafka.
func (s *stream) admin(request kmsg.Request) kmsg.Response {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(world.servers.Brokers, ",")...), kgo.MaxVersions(kversion.V3_6_0()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	response, err := client.Request(within(s.t, 20*time.Second), request)
	if err != nil {
		s.t.Fatalf("%s: %v", kmsg.NameForKey(request.Key()), err)
	}
	return response
}

// answered fails the test on an error code.
func (s *stream) answered(operation string, code int16) {
	s.t.Helper()
	if err := kerr.ErrorForCode(code); err != nil {
		s.t.Fatalf("%s: %v", operation, err)
	}
}

// tool runs Kafka's command for groups. It returns false if the command is not available.
func (s *stream) tool(args ...string) bool {
	s.t.Helper()
	if !world.servers.GivenKafka || os.Getenv("E2E_KAFKA_TOOL") == "" {
		return false
	}
	args = append([]string{"--bootstrap-server", world.servers.Brokers, "--group", s.group()}, args...)
	s.t.Log(kafkaTool(s.t, within(s.t, time.Minute), nil, groupTool, args...))
	return true
}

func (s *stream) group() string { return s.settings["KAFKA_GROUP_ID"] }

// described returns the topic's metadata, and the ends of its partitions.
func (s *stream) described() (check.Topic, []int64) {
	s.t.Helper()
	ctx := within(s.t, 20*time.Second)
	topic, ok, err := s.kafka.Topic(ctx, s.topic)
	if err != nil || !ok {
		s.t.Fatal(ok, err)
	}
	ends, err := s.kafka.Ends(ctx, topic)
	if err != nil {
		s.t.Fatal(err)
	}
	return topic, ends
}

// commit commits an offset for every partition as a tool does, that is, outside a generation and without our metadata.
func (s *stream) commit(offsets []int64) {
	s.t.Helper()
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = s.group(), -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = s.topic
	for p, offset := range offsets {
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = int32(p), offset
		topic.Partitions = append(topic.Partitions, partition)
	}
	request.Topics = append(request.Topics, topic)
	for _, p := range s.admin(request).(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		s.answered("committing", p.ErrorCode)
	}
}

// resetTo resets the group's offsets to the start or end of the log, with Kafka's own tool if available.
func (s *stream) resetTo(end bool) {
	s.t.Helper()
	to := "--to-earliest"
	if end {
		to = "--to-latest"
	}
	if s.tool("--topic", s.topic, "--reset-offsets", to, "--execute") {
		return
	}
	_, offsets := s.described()
	if !end {
		clear(offsets)
	}
	s.commit(offsets)
}

// deleteOffsets deletes the group's committed offsets of the topic, or the whole group.
func (s *stream) deleteOffsets(whole bool) {
	s.t.Helper()
	if whole {
		if s.tool("--delete") {
			return
		}
		request := kmsg.NewPtrDeleteGroupsRequest()
		request.Groups = []string{s.group()}
		s.answered("deleting the group", s.admin(request).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
		return
	}
	if s.tool("--topic", s.topic, "--delete-offsets") {
		return
	}
	described, _ := s.described()
	request := kmsg.NewPtrOffsetDeleteRequest()
	request.Group = s.group()
	topic := kmsg.NewOffsetDeleteRequestTopic()
	topic.Topic = s.topic
	for p := range described.Partitions {
		partition := kmsg.NewOffsetDeleteRequestTopicPartition()
		partition.Partition = p
		topic.Partitions = append(topic.Partitions, partition)
	}
	request.Topics = append(request.Topics, topic)
	response := s.admin(request).(*kmsg.OffsetDeleteResponse)
	s.answered("deleting offsets", response.ErrorCode)
	for _, p := range response.Topics[0].Partitions {
		s.answered("deleting offsets", p.ErrorCode)
	}
}

// deleteRecords deletes the records of partition 0 before an offset, as retention does.
func (s *stream) deleteRecords(before int64) {
	s.t.Helper()
	request := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = s.topic
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Partition, partition.Offset = 0, before
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	s.answered("deleting records", s.admin(request).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode)
}

// collection returns one of the collections of the time series: ".buckets", ".partitions" or ".options". Its writes wait for the
// majority, because the program reads majority data, and some servers acknowledge earlier by default.
func (s *stream) collection(suffix string) *mongo.Collection {
	s.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(world.servers.MongoURI).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client.Database(s.database).Collection(s.topic + suffix)
}

// allBuckets returns the buckets of a partition, ordered by their smallest offset.
func (s *stream) allBuckets(partition int32) (found []bson.Raw) {
	s.t.Helper()
	ctx := within(s.t, 30*time.Second)
	cursor, err := s.collection(".buckets").Find(ctx, bson.D{{Key: "control.source.partition", Value: partition}},
		options.Find().SetSort(bson.D{{Key: "control.source.last", Value: 1}}))
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil || len(found) == 0 {
		s.t.Fatalf("%d buckets: %v", len(found), err)
	}
	return found
}

// measurements returns the number of measurements in all buckets.
func (s *stream) measurements() (n int64) {
	s.t.Helper()
	topic, _ := s.described()
	for p := range topic.Partitions {
		for _, b := range s.allBuckets(p) {
			n += b.Lookup("control", "count").AsInt64()
		}
	}
	return n
}

// bucket returns the present state of a bucket.
func (s *stream) bucket(id bson.RawValue) bson.Raw {
	s.t.Helper()
	raw, err := s.collection(".buckets").FindOne(within(s.t, 10*time.Second), bson.D{{Key: "_id", Value: id}}).Raw()
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// awaitNotReady waits until /readyz reports not ready, with all of these words.
func (s *stream) awaitNotReady(c *harness.Consumer, words ...string) {
	s.t.Helper()
	ctx := within(s.t, 40*time.Second)
	for {
		status, body, err := c.Get(ctx, "/readyz")
		said := err == nil && status == 503
		for _, word := range words {
			said = said && strings.Contains(body, word)
		}
		if said {
			return
		}
		if ctx.Err() != nil || !c.Running() {
			s.t.Fatalf("/readyz does not say %q: %d, %v\n%s", words, status, err, body)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// replayed returns the number of measurements that a consumer recognised as stored.
func (s *stream) replayed(c *harness.Consumer) int {
	s.t.Helper()
	metrics, err := c.Metrics(within(s.t, 5*time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	return int(metrics.Sum("waterwheel_measurements_skipped_total", "reason", "replayed"))
}

// committed returns the group's offsets.
func (s *stream) committed() []int64 {
	s.t.Helper()
	topic, _ := s.described()
	offsets, _, err := s.kafka.Committed(within(s.t, 10*time.Second), s.group(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	return offsets
}

// storing sends events, lets a consumer store them, and ends it with SIGTERM.
func (s *stream) storing(t *testing.T, n int, pairs ...string) {
	t.Helper()
	s.sending(t, n)
	s.catchUp(pairs...)
}

// sending sends events of a few series.
func (s *stream) sending(t *testing.T, n int) {
	t.Helper()
	if err := s.send(within(t, 20*time.Second), s.generator(badCaseSeries), n); err != nil {
		t.Fatal(err)
	}
}

// catchUp lets a consumer commit all records, and ends it with SIGTERM.
func (s *stream) catchUp(pairs ...string) {
	s.t.Helper()
	c := s.start(pairs...)
	s.awaitCommitted(c, 2*time.Minute)
	s.terminate(c)
}
