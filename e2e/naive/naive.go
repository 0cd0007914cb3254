// Package naive is the obvious consumer, which works as at-least-once sinks do. It reads, calls insertMany, commits the offsets,
// and retries every failure. Chaos and the benchmark compare waterwheel with it. It is a process of its own with the same settings
// as waterwheel.
package naive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

const (
	// FetchWait is an environment variable. It makes a broker wait for this duration before it answers, so that the consumer inserts
	// the records of this duration at a time, instead of a few at once.
	FetchWait = "NAIVE_FETCH_WAIT"
	// Positions is an environment variable. If it is set, each document holds its record's position, for a judge.
	Positions = "NAIVE_POSITIONS"
	// maxDocuments is the maximum number of records of one insert.
	maxDocuments = 1000
	fetchBytes   = 8 << 20
	// progress is a line with the totals of documents and inserts.
	progress = "naive: stored %d documents in %d calls\n"
)

// Progress returns the totals of documents and inserts in the output of a process. Zeros mean that there are none yet.
func Progress(log string) (documents, calls int) {
	whole := log[:strings.LastIndexByte(log, '\n')+1]
	if at := strings.LastIndex(whole, progress[:12]); at >= 0 {
		if n, _ := fmt.Sscanf(whole[at:], progress, &documents, &calls); n < 2 {
			return 0, 0
		}
	}
	return documents, calls
}

// Run reads, inserts and commits until the process gets SIGTERM.
func Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	topic := os.Getenv("KAFKA_TOPICS")
	o := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...), kgo.ConsumerGroup(os.Getenv("KAFKA_GROUP_ID")),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(5 * time.Second), kgo.DisableAutoCommit(),
	}
	if session, err := time.ParseDuration(os.Getenv("KAFKA_SESSION_TIMEOUT")); err == nil {
		o = append(o, kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/10))
	}
	if wait, err := time.ParseDuration(os.Getenv(FetchWait)); err == nil {
		o = append(o, kgo.FetchMaxWait(wait), kgo.FetchMinBytes(fetchBytes))
	}
	consumer, err := kgo.NewClient(o...)
	if err != nil {
		return fmt.Errorf("making a consumer: %w", err)
	}
	defer consumer.Close()
	durable := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: new(true)}
	database, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetWriteConcern(durable).SetTimeout(5 * time.Second))
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer database.Disconnect(context.WithoutCancel(ctx))
	collection := database.Database(os.Getenv("MONGODB_DATABASE")).Collection(topic)
	stored, calls := 0, 0
	for ctx.Err() == nil {
		records := consumer.PollRecords(ctx, maxDocuments).Records()
		var documents []any
		for _, r := range records {
			documents = append(documents, documentsOf(r)...)
		}
		if len(documents) == 0 {
			continue
		}
		if !insert(ctx, collection, documents) {
			break
		}
		stored, calls = stored+len(documents), calls+1
		fmt.Printf(progress, stored, calls)
		if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
			fmt.Println("committing:", err)
		}
	}
	return nil
}

// insert retries until the documents are inserted. It returns false when the process must end.
func insert(ctx context.Context, collection *mongo.Collection, documents []any) bool {
	for {
		_, err := collection.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
		if err == nil {
			return true
		}
		fmt.Println("inserting:", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// documentsOf returns one document per measurement of a record, with the time as a date.
func documentsOf(r *kgo.Record) []any {
	elements := []json.RawMessage{r.Value}
	if bytes.HasPrefix(r.Value, []byte("[")) {
		if err := json.Unmarshal(r.Value, &elements); err != nil {
			return nil
		}
	}
	documents := make([]any, 0, len(elements))
	for i, element := range elements {
		var document map[string]any
		if err := json.Unmarshal(element, &document); err != nil {
			continue
		}
		at, err := timeOf(document["time"])
		if err != nil {
			continue
		}
		document["time"] = at
		if os.Getenv(Positions) != "" {
			document["source"] = bson.D{{Key: "partition", Value: r.Partition}, {Key: "offset", Value: r.Offset}, {Key: "part", Value: int32(i)}}
		}
		documents = append(documents, document)
	}
	return documents
}

// timeOf returns the time of an event, which is a text or a number of milliseconds.
func timeOf(v any) (time.Time, error) {
	switch v := v.(type) {
	case string:
		return time.Parse(time.RFC3339Nano, v)
	case float64:
		return time.UnixMilli(int64(v)), nil
	}
	return time.Time{}, errors.New("no time")
}
