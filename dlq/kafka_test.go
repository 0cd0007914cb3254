package dlq

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
)

// onKafka returns a producer with dead-letter topics of its own on the Kafka of the environment.
func onKafka(t *testing.T, change func(*Options)) (*Producer, string) {
	t.Helper()
	brokers := os.Getenv("E2E_KAFKA_BROKERS")
	if brokers == "" {
		t.Skip("E2E_KAFKA_BROKERS is not set: no real Kafka to test with")
	}
	source := fmt.Sprintf("dlq-test-%d", time.Now().UnixNano())
	options := Options{
		Brokers: strings.Split(brokers, ","), Sources: []string{source}, TopicFor: func(source string) string { return source + ".dlq" }, GroupID: "dlq-test", Create: true,
	}
	if change != nil {
		change(&options)
	}
	p, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	t.Cleanup(func() {
		_, err := p.client.DeleteTopics(context.WithoutCancel(t.Context()), &kafka.DeleteTopicsRequest{Topics: p.options.Topics()})
		if err != nil {
			t.Logf("deleting topics: %v", err)
		}
	})
	return p, source
}

// produce brings letters again until all are acknowledged, as a caller does: a new topic's leader may not know of it yet.
func produce(t *testing.T, p *Producer, letters []Letter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		err := p.Produce(ctx, letters)
		if err == nil {
			return
		}
		var failed *ProduceError
		if !errors.As(err, &failed) || ctx.Err() != nil {
			t.Fatal(err)
		}
		again := make([]Letter, 0, len(letters))
		for _, i := range failed.Unacknowledged {
			again = append(again, letters[i])
		}
		letters = again
		<-time.After(50 * time.Millisecond)
	}
}

// read returns the first n letters of a dead-letter topic's partition.
func read(t *testing.T, p *Producer, topic string, partition, n int) []Letter {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var letters []Letter
	for len(letters) < n {
		response, err := p.client.Fetch(ctx, &kafka.FetchRequest{
			Topic: topic, Partition: partition, Offset: int64(len(letters)), MinBytes: 1, MaxBytes: 4 << 20, MaxWait: time.Second,
		})
		if err != nil {
			t.Fatalf("reading letter %d of %d: %v", len(letters), n, err)
		}
		letters = append(letters, readBatch(t, response.Records, int64(len(letters)))...)
	}
	return letters
}

// readBatch reads the letters from an offset on: a batch may begin before it.
func readBatch(t *testing.T, records kafka.RecordReader, from int64) (letters []Letter) {
	t.Helper()
	for {
		r, err := records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return letters
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset < from {
			continue
		}
		key, _ := kafka.ReadAll(r.Key)
		value, _ := kafka.ReadAll(r.Value)
		l, err := Parse(key, value, r.Headers, r.Time.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, l)
	}
}

// sameBytes compares slices at once; go-cmp would go byte by byte. Nil and empty differ.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func byPosition(a, b Letter) int { return cmp.Compare(a.Offset, b.Offset) }

func TestLettersArriveOnKafka(t *testing.T) {
	p, source := onKafka(t, func(o *Options) { o.Partitions = 2 })
	for range 2 { // the second time the topic is there
		if err := p.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var letters []Letter
	for i := range 300 {
		l := sample()
		l.Topic, l.Partition, l.Offset = source, int32(i%3), int64(i)
		l.Timestamp = int64(i) * 1000 // 1970: would be deleted at once by retention
		l.Value = []byte(strings.Repeat("x", 5000))
		letters = append(letters, l)
	}
	begin := time.Now()
	produce(t, p, letters)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("300 letters took %v", took)
	}
	got := append(read(t, p, source+".dlq", 0, 200), read(t, p, source+".dlq", 1, 100)...)
	slices.SortFunc(got, byPosition)
	if diff := gocmp.Diff(letters, got, gocmp.Comparer(sameBytes)); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
}

func TestOverlongLetterIsCut(t *testing.T) {
	p, source := onKafka(t, nil)
	if err := p.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	letters := make([]Letter, 3)
	for i := range letters {
		letters[i] = sample()
		letters[i].Topic, letters[i].Offset, letters[i].Partition = source, int64(i), 0
	}
	letters[1].Value = []byte(strings.Repeat("[", 10<<20))
	produce(t, p, letters)
	got := read(t, p, source+".dlq", 0, 3)
	slices.SortFunc(got, byPosition)
	if got[1].Cut != "value of 10485760 bytes" || len(got[1].Value) < 900<<10 || string(got[1].Key) != "k" {
		t.Errorf("cut %q to %d bytes", got[1].Cut, len(got[1].Value))
	}
	if got[0].Cut != "" || got[2].Cut != "" {
		t.Error("the letters beside it were cut as well")
	}
}

func TestAnyTimestampComesBack(t *testing.T) {
	p, source := onKafka(t, nil)
	if err := p.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	times := []int64{
		time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), // refused by the topic
		time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), // beyond what kafka-go writes
		-1, 0, 1, 1_700_000_000_000,
	}
	letters := make([]Letter, len(times))
	for i := range letters {
		letters[i] = sample()
		letters[i].Topic, letters[i].Partition, letters[i].Offset, letters[i].Timestamp = source, 0, int64(i), times[i]
	}
	produce(t, p, letters)
	got := read(t, p, source+".dlq", 0, len(letters))
	slices.SortFunc(got, byPosition)
	if diff := gocmp.Diff(letters, got, gocmp.Comparer(sameBytes)); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
}

func TestMissingTopicSaysWhatToDo(t *testing.T) {
	p, source := onKafka(t, func(o *Options) { o.Create = false })
	for name, err := range map[string]error{
		"Setup": p.Setup(t.Context()), "Produce": p.Produce(t.Context(), []Letter{{Topic: source}}),
	} {
		if err == nil || !strings.Contains(err.Error(), source+".dlq") || !strings.Contains(err.Error(), "DLQ_CREATE=true") {
			t.Errorf("%s: %v, want the topic and the way out", name, err)
		}
	}
}
