package kafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// realBrokers returns the brokers of E2E_KAFKA_BROKERS. It skips the test without them.
func realBrokers(t *testing.T) []string {
	t.Helper()
	brokers := os.Getenv("E2E_KAFKA_BROKERS")
	if brokers == "" {
		t.Skip("E2E_KAFKA_BROKERS is not set: no real Kafka to test with")
	}
	return strings.Split(brokers, ",")
}

// realTopic creates a topic of one partition, and deletes it at the end of the test.
func realTopic(t *testing.T, brokers []string, config ...kafkago.ConfigEntry) string {
	t.Helper()
	name := "kafka-test-" + rand.Text()
	createTopic(t, brokers, name, config...)
	t.Cleanup(func() { deleteTopic(t, brokers, name) })
	return name
}

func createTopic(t *testing.T, brokers []string, name string, config ...kafkago.ConfigEntry) {
	t.Helper()
	client := admin(t, brokers)
	response, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
		Topic: name, NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: config,
	}}})
	if err = errors.Join(err, response.Errors[name]); err != nil {
		t.Fatalf("creating topic %s: %v", name, err)
	}
}

func deleteTopic(t *testing.T, brokers []string, name string) {
	t.Helper()
	client := admin(t, brokers)
	response, err := client.DeleteTopics(context.Background(), &kafkago.DeleteTopicsRequest{Topics: []string{name}})
	if err == nil {
		err = response.Errors[name]
	}
	if err != nil && !errors.Is(err, kafkago.UnknownTopicOrPartition) {
		t.Errorf("deleting topic %s: %v", name, err)
	}
}

func admin(t *testing.T, brokers []string) *kafkago.Client {
	transport := &kafkago.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(brokers...), Transport: transport, Timeout: 10 * time.Second}
}

// realClient opens a client for a topic and waits until the cluster knows it.
func realClient(t *testing.T, brokers []string, topic string) (*Client, [16]byte) {
	t.Helper()
	client, err := Open(t.Context(), tested(Options{
		Brokers: brokers, Topics: []string{topic}, Isolation: ReadCommitted, FetchWait: 100 * time.Millisecond,
	}), prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("opening a client: %v", err)
	}
	t.Cleanup(client.Close)
	return client, topicID(t, client, topic)
}

// topicID waits until the topic's leader answers. The metadata may name a leader before that broker knows that it leads.
func topicID(t *testing.T, client *Client, topic string) [16]byte {
	t.Helper()
	var last error
	for range 100 {
		topics, err := client.Topics(t.Context(), topic)
		if err == nil && topics[0].Err == nil && len(topics[0].Partitions) == 1 && topics[0].Partitions[0].Err == nil {
			if _, _, last = client.Bounds(t.Context(), partition(topic, 0)); last == nil {
				return topics[0].ID
			}
		} else if last = err; err == nil {
			last = topics[0].Err
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("topic %s does not appear: %v", topic, last)
	return [16]byte{}
}

// fetchUntil fetches until it has want records, and returns copies. It retries errors as Classify says.
func fetchUntil(t *testing.T, client *Client, topic string, id [16]byte, want int) []record.Record {
	t.Helper()
	var records []record.Record
	log, next := client.Log(partition(topic, 0), id), int64(0)
	for range 100 {
		batch, err := log.fetch(t.Context(), next)
		if err != nil {
			if class := Classify(err); class != Retry && class != LookAtMetadata {
				t.Fatalf("fetching: %v", err)
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		for _, r := range batch.Records {
			r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), bytes.Clone(r.Headers)
			records = append(records, r)
		}
		next = batch.Next
		batch.Release()
		if len(records) >= want {
			return records
		}
	}
	t.Fatalf("%d of %d records came", len(records), want)
	return nil
}

func produce(t *testing.T, brokers []string, topic string, codec kafkago.Compression, messages ...kafkago.Message) {
	t.Helper()
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	writer := &kafkago.Writer{
		Addr: kafkago.TCP(brokers...), Topic: topic, Transport: transport, Compression: codec,
		RequiredAcks: kafkago.RequireAll, BatchTimeout: 5 * time.Millisecond, BatchSize: 1000,
	}
	if err := writer.WriteMessages(t.Context(), messages...); err != nil {
		t.Fatalf("producing: %v", err)
	}
	if err := writer.Close(); err != nil {
		t.Fatalf("closing the writer: %v", err)
	}
}

func TestRealFetchReadsEveryCodec(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, id := realClient(t, brokers, topic)
	codecs := []kafkago.Compression{0, kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd}
	const each = 300
	var want []kafkago.Message
	for _, codec := range codecs {
		var messages []kafkago.Message
		for i := range each {
			messages = append(messages, kafkago.Message{
				Key:     fmt.Appendf(nil, "key-%d", i),
				Value:   fmt.Appendf(nil, `{"codec":%d,"i":%d,"text":"%s"}`, codec, i, strings.Repeat("x", i%50)),
				Headers: []kafkago.Header{{Key: "h", Value: []byte{byte(i)}}, {Key: "h", Value: nil}},
				Time:    time.UnixMilli(1_700_000_000_000 + int64(i)),
			})
		}
		produce(t, brokers, topic, codec, messages...)
		want = append(want, messages...)
	}
	records := fetchUntil(t, client, topic, id, len(want))
	for i, r := range records {
		headers, err := recordbatch.ParseHeaders(r.Headers)
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != int64(i) || !bytes.Equal(r.Key, want[i].Key) || !bytes.Equal(r.Value, want[i].Value) || r.Timestamp != want[i].Time.UnixMilli() {
			t.Fatalf("record %d is %+v, want %+v", i, r, want[i])
		}
		if len(headers) != 2 || headers[0].Key != "h" || !bytes.Equal(headers[0].Value, want[i].Headers[0].Value) {
			t.Fatalf("record %d has headers %+v", i, headers)
		}
	}
}

// TestRealFetchInSmallBites checks that the broker sends whole record batches up to the requested size, and that the first one
// may exceed it.
func TestRealFetchInSmallBites(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, id := realClient(t, brokers, topic)
	client.options.FetchBytes = 1500
	const count = 60
	for i := range count {
		size := 200
		if i%20 == 7 {
			size = 50_000
		}
		produce(t, brokers, topic, kafkago.Compression(i%5), kafkago.Message{Value: bytes.Repeat([]byte{byte('a' + i%26)}, size)})
	}
	records := fetchUntil(t, client, topic, id, count)
	for i, r := range records {
		if r.Offset != int64(i) || r.Key != nil || r.Value[0] != byte('a'+i%26) {
			t.Fatalf("record %d has offset %d, value %.10q", i, r.Offset, r.Value)
		}
	}
}

func TestRealFetchTakesTheBrokersTime(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers, kafkago.ConfigEntry{ConfigName: "message.timestamp.type", ConfigValue: "LogAppendTime"})
	client, id := realClient(t, brokers, topic)
	before := time.Now().Add(-time.Minute)
	var messages []kafkago.Message
	for range 10 {
		messages = append(messages, kafkago.Message{Value: []byte("v"), Time: time.UnixMilli(1_000_000)})
	}
	produce(t, brokers, topic, kafkago.Zstd, messages...)
	for _, r := range fetchUntil(t, client, topic, id, 10) {
		if r.Timestamp < before.UnixMilli() {
			t.Errorf("offset %d has the producer's time %d", r.Offset, r.Timestamp)
		}
	}
}

func TestRealBoundsAndTimes(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers, kafkago.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "-1"})
	client, id := realClient(t, brokers, topic)
	for i := range 5 {
		produce(t, brokers, topic, 0, kafkago.Message{Value: []byte("v"), Time: time.UnixMilli(1000 + 1000*int64(i))})
	}
	fetchUntil(t, client, topic, id, 5)
	if first, end, err := client.Bounds(t.Context(), partition(topic, 0)); first != 0 || end != 5 || err != nil {
		t.Error(first, end, err)
	}
	for at, want := range map[int64]int64{-5: 0, 0: 0, 2500: 2, 5000: 4, 5001: 5} {
		if offset, err := client.OffsetAt(t.Context(), partition(topic, 0), at); offset != want || err != nil {
			t.Errorf("time %d is at offset %d, want %d: %v", at, offset, want, err)
		}
	}
	if _, err := fetch(t.Context(), client, topic, id, 6); Classify(err) != OutOfRange {
		t.Errorf("an offset beyond the end: %v", err)
	}
	if batch, err := fetch(t.Context(), client, topic, id, 5); err != nil || batch.Next != 5 || batch.End != 5 {
		t.Errorf("the end itself: %+v, %v", batch, err)
	}
}

func TestRealTopicCreatedAgainIsAnotherTopic(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, before := realClient(t, brokers, topic)
	produce(t, brokers, topic, 0, kafkago.Message{Value: []byte("before")}, kafkago.Message{Value: []byte("before")})
	fetchUntil(t, client, topic, before, 2)
	deleteTopic(t, brokers, topic)
	createTopic(t, brokers, topic)
	after := topicID(t, client, topic)
	for i := 0; after == before && i < 100; i++ { // the broker may not know the new topic yet
		time.Sleep(50 * time.Millisecond)
		after = topicID(t, client, topic)
	}
	produce(t, brokers, topic, 0, kafkago.Message{Value: []byte("after")}, kafkago.Message{Value: []byte("after")}, kafkago.Message{Value: []byte("after")})
	// The new log is longer than the old position. A fetch by name would read the third record as if nothing had happened.
	for range 50 {
		batch, err := fetch(t.Context(), client, topic, before, 2)
		if err == nil {
			t.Fatalf("records of the new topic under the old id: %+v", batch.Records)
		}
		if Classify(err) != LookAtMetadata && Classify(err) != Retry {
			t.Fatal(err)
		}
		if errors.Is(err, kafkago.UnknownTopicID) {
			fetchUntil(t, client, topic, after, 3)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the old id is never unknown")
}

func TestRealTopicsThatAreNot(t *testing.T) {
	brokers := realBrokers(t)
	topic := realTopic(t, brokers)
	client, _ := realClient(t, brokers, topic)
	topics, err := client.Topics(t.Context(), "no-such-"+topic, "not a name", topic)
	if err != nil {
		t.Fatal(err)
	}
	if Classify(topics[0].Err) != LookAtMetadata || Classify(topics[1].Err) != StopProgram || topics[2].Err != nil {
		t.Error(topics)
	}
	if client.ClusterID() == "" || topics[2].ID == [16]byte{} || topics[2].Partitions[0].Leader < 0 {
		t.Error(client.ClusterID(), topics[2])
	}
}
