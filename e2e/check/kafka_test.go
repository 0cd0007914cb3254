package check

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"waterwheel/e2e/embedded"
	"waterwheel/e2e/events"
	"waterwheel/e2e/harness"
)

// TestReadsTheWholeLog checks that every record is read back as it was sent, including null values and headers. A topic that is
// empty or missing is no error.
func TestReadsTheWholeLog(t *testing.T) {
	server, err := embedded.StartKafka(kfake.SeedTopics(4, "full"), kfake.SeedTopics(1, "bare"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	producer := harness.NewProducer(server.Brokers(), "full")
	g := events.NewGenerator(events.Options{Series: 20, Start: time.Unix(1_700_000_000, 0), Step: time.Second, MaxBytes: 1000, Seed: 3})
	var made []events.Event
	sent := map[string]int{}
	for range 3000 {
		e := g.Next()
		made = append(made, e)
		sent[string(e.Key)+"="+string(e.Value)]++
	}
	if err := producer.Send(ctx, made...); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(); err != nil {
		t.Fatal(err)
	}

	k, err := DialKafka(server.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	full, ok, err := k.Topic(ctx, "full")
	if err != nil || !ok || full.Partitions != 4 || full.ID == [16]byte{} {
		t.Fatalf("topic %v, %v: %v", full, ok, err)
	}
	records, err := k.Read(ctx, full)
	if err != nil {
		t.Fatal(err)
	}
	tombstones := 0
	for _, r := range records {
		sent[string(r.Key)+"="+string(r.Value)]--
		if r.Value == nil {
			tombstones++
		}
		if r.Headers["trace"] != "t-1" || r.Timestamp == 0 {
			t.Fatalf("record %v came without its header or time", r)
		}
	}
	for value, n := range sent {
		if n != 0 {
			t.Errorf("%s is %d times too seldom in the log", value, n)
		}
	}
	if tombstones == 0 {
		t.Error("no null value was read")
	}
	committed, _, err := k.Committed(ctx, "nobody", full)
	if err != nil || !slices.Equal(committed, []int64{-1, -1, -1, -1}) {
		t.Errorf("a group without commits has %v: %v", committed, err)
	}
	bare, _, err := k.Topic(ctx, "bare")
	if err != nil {
		t.Fatal(err)
	}
	if records, err := k.Read(ctx, bare); err != nil || len(records) != 0 {
		t.Errorf("%d records of an empty topic: %v", len(records), err)
	}
	if _, ok, err := k.Topic(ctx, "absent"); ok || err != nil {
		t.Errorf("a topic that is not there: %v, %v", ok, err)
	}
}
