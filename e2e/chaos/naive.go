package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Naive is the obvious consumer, and works as at-least-once sinks do. It reads, calls insertMany, commits the offsets, and
// retries every failure. It takes the same environment settings as waterwheel.
func Naive() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	session, err := time.ParseDuration(os.Getenv("KAFKA_SESSION_TIMEOUT"))
	if err != nil {
		return fmt.Errorf("KAFKA_SESSION_TIMEOUT: %w", err)
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.ConsumerGroup(os.Getenv("KAFKA_GROUP_ID")),
		kgo.ConsumeTopics(os.Getenv("KAFKA_TOPICS")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/10), kgo.MetadataMaxAge(5*time.Second),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return fmt.Errorf("making a consumer: %w", err)
	}
	defer consumer.Close()
	database, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetTimeout(5 * time.Second))
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer database.Disconnect(context.WithoutCancel(ctx))
	collection := database.Database(os.Getenv("MONGODB_DATABASE")).Collection(os.Getenv("KAFKA_TOPICS"))
	for ctx.Err() == nil {
		fetches := consumer.PollRecords(ctx, 5000)
		var documents []any
		fetches.EachRecord(func(r *kgo.Record) { documents = append(documents, naiveDocuments(r)...) })
		if !insert(ctx, collection, documents) {
			return nil
		}
		if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
			fmt.Println("committing:", err)
		}
	}
	return nil
}

// insert retries until the documents are inserted. It returns false when the process must end.
func insert(ctx context.Context, collection *mongo.Collection, documents []any) bool {
	for len(documents) > 0 {
		_, err := collection.InsertMany(ctx, documents)
		if err == nil {
			break
		}
		fmt.Println("inserting:", err)
		sleep(ctx, 500*time.Millisecond)
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// naiveDocuments returns one document per measurement of a record. Each holds the record's position for the judge.
func naiveDocuments(r *kgo.Record) []any {
	elements := []json.RawMessage{r.Value}
	if bytes.HasPrefix(r.Value, []byte("[")) {
		if err := json.Unmarshal(r.Value, &elements); err != nil {
			return nil
		}
	}
	documents := make([]any, 0, len(elements))
	for i, element := range elements {
		var values map[string]any
		if err := json.Unmarshal(element, &values); err != nil {
			continue
		}
		documents = append(documents, bson.D{
			{Key: "partition", Value: r.Partition}, {Key: "offset", Value: r.Offset}, {Key: "part", Value: int32(i)}, {Key: "values", Value: values},
		})
	}
	return documents
}
