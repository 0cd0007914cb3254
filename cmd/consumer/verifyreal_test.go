package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"waterwheel/config"
)

// stage is a topic, a database and a consumer on real servers.
type stage struct {
	t       *testing.T
	env     map[string]string
	topic   string
	admin   *kafka.Client
	buckets *mongo.Collection
	sent    int

	valid, deadLetters int // the numbers of what was sent
}

// newStage needs E2E_KAFKA_BROKERS and E2E_MONGODB_URI.
func newStage(t *testing.T) *stage {
	t.Helper()
	brokers, uri := os.Getenv("E2E_KAFKA_BROKERS"), os.Getenv("E2E_MONGODB_URI")
	if brokers == "" || uri == "" {
		t.Skip("E2E_KAFKA_BROKERS or E2E_MONGODB_URI is not set: no real Kafka with a MongoDB to test with")
	}
	name := strings.ToLower("verify_" + rand.Text()[:8])
	s := &stage{t: t, topic: name, env: map[string]string{
		"KAFKA_BROKERS": brokers, "KAFKA_TOPICS": name, "KAFKA_GROUP_ID": name, "MONGODB_URI": uri, "MONGODB_DATABASE": name,
		"HTTP_ADDR": "", "FLUSH_INTERVAL": "100ms", "COMMIT_INTERVAL": "100ms", "MEMORY_LIMIT": "256MiB", "BUCKET_MAX_COUNT": "50",
		"BUCKET_DELTA_MAX": "0", "MONGODB_WRITE_TIMEOUT": "500ms",
	}}
	if segments := os.Getenv("E2E_SEGMENTS"); segments != "" {
		s.env["SEGMENTS"] = segments
	}
	transport := &kafka.Transport{MetadataTTL: time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	s.admin = &kafka.Client{Addr: kafka.TCP(strings.Split(brokers, ",")...), Transport: transport, Timeout: 20 * time.Second}
	created, err := s.admin.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: name, NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}},
	}}})
	if err != nil || created.Errors[name] != nil {
		t.Fatal(err, created)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		t.Fatal(err)
	}
	s.buckets = client.Database(name).Collection(name + ".buckets")
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = s.admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name, name + ".dlq"}})
		_ = s.buckets.Database().Drop(ctx)
		_ = client.Disconnect(ctx)
	})
	return s
}

// consume runs the consumer until stop is called or the test ends.
func (s *stage) consume() (stop func()) {
	s.t.Helper()
	var environ []string
	for name, value := range s.env {
		environ = append(environ, name+"="+value)
	}
	c, err := config.Load(func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }, environ)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, slog.New(slog.DiscardHandler)) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the consumer ended with %v", err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// produce sends n records of five series. Every 20th is an array with a bad element, and every 50th is not JSON.
func (s *stage) produce(n int) {
	s.t.Helper()
	messages := make([]kafka.Message, n)
	for i := range messages {
		at := s.sent + i
		event := fmt.Sprintf(`{"time":%d,"meta":{"host":%d},"x":%d.5,"inner":{"tags":["a",%d]}}`, 1_700_000_000_000+at*100, at%5, at%17, at%3)
		switch {
		case at%50 == 49:
			event = "no json"
			s.deadLetters++
		case at%20 == 19:
			event = "[" + event + `,{"x":1},` + event + "]"
			s.deadLetters++
			s.valid += 2
		default:
			s.valid++
		}
		messages[i] = kafka.Message{Key: fmt.Append(nil, at%5), Value: []byte(event)}
	}
	s.write(messages...)
	s.sent += n
}

// write sends messages.
func (s *stage) write(messages ...kafka.Message) {
	s.t.Helper()
	w := &kafka.Writer{
		Addr: s.admin.Addr, Topic: s.topic, Balancer: &kafka.Hash{}, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		Transport: s.admin.Transport,
	}
	defer w.Close()
	s.change(w.WriteMessages(s.t.Context(), messages...))
}

// verify runs the verify command.
func (s *stage) verify(args ...string) (code int, out string) {
	s.t.Helper()
	code, stdout, stderr := try(s.t, s.env, append([]string{"verify"}, args...)...)
	return code, stdout + stderr
}

// verified waits until everything that was sent is committed and verified.
func (s *stage) verified() {
	s.t.Helper()
	want := fmt.Sprintf("verified %d measurements of %s: %d stored once, %d dead-lettered, 0 expired, 0 missing, 0 doubled, 0 unknown, "+
		"0 dead letters missing, 0 damaged buckets, 0 different", s.valid, s.topic, s.valid, s.deadLetters)
	deadline := time.Now().Add(30 * time.Second)
	for {
		code, out := s.verify("--content")
		if code == exitDone && strings.Contains(out, want) {
			return
		}
		if code == exitFound || time.Now().After(deadline) {
			s.t.Fatalf("exit code %d, not %q:\n%s", code, want, out)
		}
	}
}

// find returns the buckets of a partition, starting with the fullest.
func (s *stage) find() (found []bson.Raw) {
	s.t.Helper()
	cursor, err := s.buckets.Find(s.t.Context(), bson.D{{Key: "control.source.partition", Value: 0}},
		options.Find().SetSort(bson.D{{Key: "control.count", Value: -1}}))
	if err == nil {
		err = cursor.All(s.t.Context(), &found)
	}
	if err != nil || len(found) < 4 {
		s.t.Fatalf("%d buckets, %v", len(found), err)
	}
	return found
}

func (s *stage) change(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// double inserts a copy of a bucket. Its _id has another byte after the time.
func (s *stage) double(bucket bson.Raw, other byte) {
	s.t.Helper()
	var d bson.D
	s.change(bson.Unmarshal(bucket, &d))
	id := d[0].Value.(bson.ObjectID)
	id[4], id[5] = other, id[5]^1
	d[0].Value = id
	_, err := s.buckets.InsertOne(s.t.Context(), d)
	s.change(err)
}

// TestVerifyBesideTheConsumer fills a topic, lets the consumer store it, and creates faults while the consumer runs.
func TestVerifyBesideTheConsumer(t *testing.T) {
	s := newStage(t)
	s.consume()
	s.produce(2000)
	s.verified()

	set := func(bucket bson.Raw, path string, value any) {
		_, err := s.buckets.UpdateByID(t.Context(), bucket.Lookup("_id"), bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: value}}}})
		s.change(err)
	}
	buckets := s.find()
	_, err := s.buckets.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: buckets[0].Lookup("_id")}})
	s.change(err)
	set(buckets[1], "data.x.0", 99.5)
	set(buckets[2], "control.count", int32(3))
	s.double(buckets[3], 0xff)
	s.produce(200)

	code, out := s.verify("--content")
	for _, line := range []string{"50 missing", "50 doubled", "control.count: is 3, but 50 positions are listed", `data.x.0 (offset `, `): is {"$numberDouble":"99.5"}`} {
		if code != exitFound || !strings.Contains(out, line) {
			t.Fatalf("exit code %d, %q is not said:\n%s", code, line, out)
		}
	}
	if code, out = s.verify("--dry-run"); code != exitFound || !strings.Contains(out, "50 copies would be removed") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if code, out = s.verify("--repair", "--yes"); code != exitFound || !strings.Contains(out, "50 copies were removed") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if code, out = s.verify("--partition", "0"); code != exitFound || !strings.Contains(out, ", 50 missing, 0 doubled") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	_, err = s.buckets.InsertOne(t.Context(), buckets[0])
	s.change(err)
	set(buckets[1], "data.x.0", buckets[1].Lookup("data", "x", "0"))
	set(buckets[2], "control.count", int32(50))
	s.produce(300)
	s.verified()
}

// TestVerifyAfterLogCompaction checks that no fault is found when stored records were removed by the compaction of the log. Another
// group begins with the gaps of the log, and its consumer commits the end of the log, which has tombstones.
func TestVerifyAfterLogCompaction(t *testing.T) {
	s := newStage(t)
	s.consume()
	s.produce(200)
	s.verified() // the cleaner must not be faster than the consumer
	altered, err := s.admin.IncrementalAlterConfigs(t.Context(), &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: s.topic, Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "cleanup.policy", Value: "compact"}, {Name: "min.cleanable.dirty.ratio", Value: "0.001"}, {Name: "segment.ms", Value: "100"},
			},
		}},
	})
	if err != nil || altered.Resources[0].Error != nil {
		t.Fatal(err, altered)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; { // the log cleaner runs only at intervals
		s.produce(10) // this closes the earlier segment
		code, out := s.verify("--content")
		if code == exitDone && strings.Contains(out, " compacted\n") && strings.Contains(out, "0 missing, 0 doubled, 0 unknown, ") {
			break
		}
		if code != exitDone || time.Now().After(deadline) {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
	}
	s.write(kafka.Message{Key: []byte("0")}, kafka.Message{Key: []byte("1")}, kafka.Message{Key: []byte("2")})
	s.env["KAFKA_GROUP_ID"], s.env["MONGODB_COLLECTION"] = s.topic+"-2", "late"
	s.consume()
	s.committed()
	if code, out := s.verify("--content"); code != exitDone || !strings.Contains(out, "0 missing, 0 doubled, 0 unknown, ") {
		t.Errorf("the late group: exit code %d:\n%s", code, out)
	}
	if code, out := s.verify("--from", "0"); code != exitDone || strings.Contains(out, fmt.Sprintf("%d stored once", s.valid)) {
		t.Errorf("nothing was compacted away before the late group: exit code %d:\n%s", code, out)
	}
}

// committed waits until the group has committed the end of each partition.
func (s *stage) committed() {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		ends, err := s.admin.ListOffsets(s.t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
			s.topic: {kafka.LastOffsetOf(0), kafka.LastOffsetOf(1)},
		}})
		s.change(err)
		group, err := s.admin.OffsetFetch(s.t.Context(), &kafka.OffsetFetchRequest{
			GroupID: s.env["KAFKA_GROUP_ID"], Topics: map[string][]int{s.topic: {0, 1}},
		})
		s.change(err)
		behind := 2
		for _, end := range ends.Topics[s.topic] {
			for _, p := range group.Topics[s.topic] {
				if p.Partition == end.Partition && p.CommittedOffset == end.LastOffset {
					behind--
				}
			}
		}
		if behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("committed %+v of %+v", group.Topics, ends.Topics)
		}
	}
}

// TestRepairBesideTheConsumer removes a copy from a bucket that the consumer is writing.
func TestRepairBesideTheConsumer(t *testing.T) {
	s := newStage(t)
	s.env["SEGMENTS"] = "off" // a consumer never writes to a segment again
	s.consume()
	s.produce(300)
	s.verified()
	for _, bucket := range s.find() { // the new _id is mostly the smaller one, so the repair removes the measurements of the consumer's bucket
		s.double(bucket, 0)
	}
	s.produce(50) // updates of buckets from which the repair removes the earlier half
	code, out := s.verify("--repair", "--yes")
	if code != exitDone || !strings.Contains(out, "were removed") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	s.produce(150)
	s.verified()
}

// TestVerifyGoesByTheExpiryOfTheCollection checks verify after a command has changed the expiry, with unchanged settings.
func TestVerifyGoesByTheExpiryOfTheCollection(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(100)
	s.verified()
	stop()
	s.command(exitDone, "", "collection", "set-expiry", "24h", "--yes")
	s.command(exitDone, "", "collection", "expire", "--yes")
	code, out := s.verify()
	if says := fmt.Sprintf(" %d expired, 0 missing, ", s.valid); code != exitDone || !strings.Contains(out, says) {
		t.Errorf("exit code %d, not %q:\n%s", code, says, out)
	}
}
