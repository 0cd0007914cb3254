package dlq

import (
	"errors"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
)

func TestNewRefusesALoop(t *testing.T) {
	_, err := New(Options{Brokers: []string{"localhost:1"}, Sources: []string{"a", "a.dlq"}, TopicFor: func(source string) string { return source + ".dlq" }})
	if err == nil || !strings.Contains(err.Error(), `"a.dlq"`) {
		t.Errorf("error %v, want one that names the topic", err)
	}
	if _, err := New(Options{Brokers: []string{"localhost:1"}, Sources: []string{"a"}}); err == nil {
		t.Error("no dead-letter topic was accepted")
	}
}

func TestSourcesMayShareADeadLetterTopic(t *testing.T) {
	o := Options{Sources: []string{"b", "a"}, TopicFor: func(string) string { return "dead" }}
	if got := o.Topics(); len(got) != 1 || got[0] != "dead" {
		t.Errorf("topics = %v, want one", got)
	}
	o.TopicFor = func(source string) string { return source + ".dlq" }
	if got := strings.Join(o.Topics(), " "); got != "a.dlq b.dlq" {
		t.Errorf("topics = %v", got)
	}
}

func TestChunksAreBoundedAndComplete(t *testing.T) {
	letters := make([]Letter, 100)
	var indexes []int
	for i := range letters {
		letters[i].Value = make([]byte, (i%10)*30_000)
		indexes = append(indexes, i)
	}
	letters[50].Value = make([]byte, chunkBytes)
	next := 0
	for chunk := range chunks(letters, indexes) {
		bytes := 0
		for _, i := range chunk {
			if i != next {
				t.Fatalf("letter %d where %d was due", i, next)
			}
			next++
			bytes += size(&letters[i])
		}
		if bytes > chunkBytes && len(chunk) > 1 {
			t.Errorf("a chunk of %d letters has %d bytes", len(chunk), bytes)
		}
	}
	if next != len(letters) {
		t.Errorf("%d of %d letters came out", next, len(letters))
	}
}

func TestCutKeepsTheEnvelope(t *testing.T) {
	long := sample()
	long.Value = make([]byte, 10<<20)
	got := cut(long, 8<<10)
	if size(&got) > 8<<10 || len(got.Value) == 0 || string(got.Key) != "k" || len(got.Headers) != 2 {
		t.Errorf("cut to %d bytes, value %d, key %q, %d headers", size(&got), len(got.Value), got.Key, len(got.Headers))
	}
	if got.Cut != "value of 10485760 bytes" {
		t.Errorf("Cut = %q", got.Cut)
	}
	long.Key = make([]byte, 1<<20)
	got = cut(long, 8<<10)
	if size(&got) > 8<<10 || got.Key != nil || got.Headers != nil || got.Offset != long.Offset {
		t.Errorf("a long key: cut to %d bytes, key %d", size(&got), len(got.Key))
	}
	if got.Cut != "2 headers, key of 1048576 bytes, value of 10485760 bytes" {
		t.Errorf("Cut = %q", got.Cut)
	}
}

// TestCutLeavesTheKey: headers that are too long go before the key does, and a value that fits beside it stays.
func TestCutLeavesTheKey(t *testing.T) {
	l := sample()
	value := len(l.Value)
	l.Headers = []Header{{Key: "long", Value: make([]byte, 1<<20)}}
	got := cut(l, 8<<10)
	if string(got.Key) != "k" || len(got.Value) != value || got.Headers != nil || got.Cut != "1 headers" {
		t.Errorf("key %q, value of %d bytes, %d headers, cut %q", got.Key, len(got.Value), len(got.Headers), got.Cut)
	}
	l.Cut = "what was cut before"
	if got := cut(l, 8<<10); !strings.HasPrefix(got.Cut, l.Cut+", ") {
		t.Errorf("cut %q", got.Cut)
	}
}

func TestUnreachableBrokerLeavesAllUnacknowledged(t *testing.T) {
	p, err := New(Options{Brokers: []string{"127.0.0.1:1"}, Sources: []string{"a"}, TopicFor: func(string) string { return "dead" }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	letters := []Letter{{Topic: "a", Partition: 1}, {Topic: "a"}, {Topic: "a", Partition: 1}}
	var failed *ProduceError
	if err := p.Produce(t.Context(), letters); !errors.As(err, &failed) {
		t.Fatalf("error %v, want a *ProduceError", err)
	}
	if len(failed.Unacknowledged) != 3 || failed.Unacknowledged[1] != 1 {
		t.Errorf("unacknowledged %v, want all in order", failed.Unacknowledged)
	}
	if errors.Is(failed, kafka.UnknownTopicOrPartition) {
		t.Errorf("an outage looks like a missing topic: %v", failed)
	}
}
