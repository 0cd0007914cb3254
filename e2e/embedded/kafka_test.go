package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"waterwheel/e2e/embedded"
)

// TestKafkaSpeaksWhatTheConsumerUses checks every request version that the consumer relies on. An upgrade of kfake that drops a
// version fails here, and not with a closed connection.
func TestKafkaSpeaksWhatTheConsumerUses(t *testing.T) {
	client := startKafka(t)
	want := map[kmsg.Key]int16{
		kmsg.Produce: 7, kmsg.Fetch: 13, kmsg.ListOffsets: 5, kmsg.Metadata: 12, kmsg.OffsetCommit: 7, kmsg.OffsetFetch: 5,
		kmsg.FindCoordinator: 2, kmsg.JoinGroup: 7, kmsg.Heartbeat: 3, kmsg.LeaveGroup: 3, kmsg.SyncGroup: 5,
		kmsg.CreateTopics: 5, kmsg.SASLHandshake: 1, kmsg.SASLAuthenticate: 1,
	}
	response := request[*kmsg.ApiVersionsResponse](t, client, kmsg.NewPtrApiVersionsRequest())
	for _, k := range response.ApiKeys {
		version, ok := want[kmsg.Key(k.ApiKey)]
		if !ok {
			continue
		}
		if version < k.MinVersion || version > k.MaxVersion {
			t.Errorf("%s: versions %d to %d, want %d", kmsg.Key(k.ApiKey).Name(), k.MinVersion, k.MaxVersion, version)
		}
		delete(want, kmsg.Key(k.ApiKey))
	}
	for k, version := range want {
		t.Errorf("%s: not offered, want version %d", k.Name(), version)
	}
}

// TestKafkaGivesTopicIDs checks that a topic that is created again has another id, and that a fetch by the old id fails.
func TestKafkaGivesTopicIDs(t *testing.T) {
	client := startKafka(t)
	first := createTopic(t, client, "events")
	if first == [16]byte{} {
		t.Fatal("the topic has no id")
	}

	remove := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr("events")
	remove.Topics = append(remove.Topics, topic)
	remove.TopicNames = []string{"events"}
	request[*kmsg.DeleteTopicsResponse](t, client, remove)
	if second := createTopic(t, client, "events"); second == first {
		t.Errorf("the topic created again has the same id %x", second)
	}

	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis = 10
	stale := kmsg.NewFetchRequestTopic()
	stale.TopicID = first
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	stale.Partitions = append(stale.Partitions, partition)
	fetch.Topics = append(fetch.Topics, stale)
	response := request[*kmsg.FetchResponse](t, client, fetch)
	if got := response.Topics[0].Partitions[0].ErrorCode; got != kerr.UnknownTopicID.Code {
		t.Errorf("fetching by the id of a deleted topic: code %d, want %d", got, kerr.UnknownTopicID.Code)
	}
}

// TestKafkaKeepsCommitMetadata checks that offsets committed outside a group's generation are returned with their metadata.
func TestKafkaKeepsCommitMetadata(t *testing.T) {
	client := startKafka(t)
	createTopic(t, client, "events")

	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = "g"
	commit.Generation = -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "events"
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = 7
	partition.Metadata = kmsg.StringPtr("ww1;cluster;id;db.c")
	topic.Partitions = append(topic.Partitions, partition)
	commit.Topics = append(commit.Topics, topic)
	request[*kmsg.OffsetCommitResponse](t, client, commit)

	fetch := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g"
	wanted := kmsg.NewOffsetFetchRequestGroupTopic()
	wanted.Topic = "events"
	wanted.Partitions = []int32{0, 1}
	group.Topics = append(group.Topics, wanted)
	fetch.Groups = append(fetch.Groups, group)
	response := request[*kmsg.OffsetFetchResponse](t, client, fetch)
	got := response.Groups[0].Topics[0].Partitions
	if len(got) != 2 {
		t.Fatalf("%d partitions answered, want 2", len(got))
	}
	if got[0].Offset != 7 || got[0].Metadata == nil || *got[0].Metadata != "ww1;cluster;id;db.c" {
		t.Errorf("partition 0: offset %d, metadata %v", got[0].Offset, got[0].Metadata)
	}
	if got[1].Offset != -1 {
		t.Errorf("partition 1 without a commit: offset %d, want -1", got[1].Offset)
	}
}

// startKafka starts a cluster for this test, and returns a client of it.
func startKafka(t *testing.T) *kgo.Client {
	t.Helper()
	kafka, err := embedded.StartKafka()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()), kgo.MaxVersions(kversion.V3_6_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// createTopic creates a topic of two partitions, and returns its id from the Metadata response.
func createTopic(t *testing.T, client *kgo.Client, name string) [16]byte {
	t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
	create.Topics = append(create.Topics, topic)
	created := request[*kmsg.CreateTopicsResponse](t, client, create)
	if code := created.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("creating %s: %v", name, kerr.ErrorForCode(code))
	}

	metadata := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = kmsg.StringPtr(name)
	metadata.Topics = append(metadata.Topics, asked)
	return request[*kmsg.MetadataResponse](t, client, metadata).Topics[0].TopicID
}

// request sends one request and returns its response.
func request[R kmsg.Response](t *testing.T, client *kgo.Client, r kmsg.Request) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	response, err := client.Request(ctx, r)
	if err != nil {
		t.Fatalf("%s: %v", kmsg.NameForKey(r.Key()), err)
	}
	return response.(R)
}
