package chaos

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"waterwheel/e2e/check"
)

// deleteDeadLetters deletes the dead-letter topic, and returns its records. During this nothing is produced and no letter is in
// flight.
func (r *run) deleteDeadLetters(t *testing.T) []check.Record {
	t.Helper()
	ctx := within(t, time.Minute)
	r.load.pause.Lock()
	defer r.load.pause.Unlock()
	source, _, err := r.kafka.Topic(ctx, r.topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.kafka.AwaitCommitted(ctx, r.group(), source); err != nil {
		t.Fatal(err)
	}
	name := r.topic + ".dlq"
	topic, _, err := r.kafka.Topic(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	letters, err := r.kafka.Read(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	err = r.eventually(ctx, "deleting the dead-letter topic", func(ctx context.Context) error {
		if _, err := r.kafka.Admin.DeleteTopics(ctx, name); err != nil {
			return err
		}
		_, there, err := r.kafka.Topic(ctx, name)
		if err == nil && there {
			err = errors.New("it is still there")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is deleted; it had %d letters", name, len(letters))
	return letters
}

// writeDeadLetters writes letters unchanged.
func (r *run) writeDeadLetters(ctx context.Context, letters []check.Record) error {
	w := &kafka.Writer{
		Addr: kafka.TCP(strings.Split(r.cluster.Address(), ",")...), Topic: r.topic + ".dlq", RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond, MaxAttempts: 50, Transport: &kafka.Transport{MetadataTTL: time.Second, IdleTimeout: 5 * time.Second},
	}
	defer w.Close()
	messages := make([]kafka.Message, len(letters))
	for i, l := range letters {
		messages[i] = kafka.Message{Key: l.Key, Value: l.Value, Time: time.UnixMilli(l.Timestamp)}
		for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
			messages[i].Headers = append(messages[i].Headers, kafka.Header{Key: name, Value: []byte(l.Headers[name])})
		}
	}
	return w.WriteMessages(ctx, messages...)
}
