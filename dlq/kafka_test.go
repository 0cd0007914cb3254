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
	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// stand is a producer with its own dead-letter topics on the Kafka server of the environment, and a client that reads them.
type stand struct {
	*Producer
	source string
	client *kafkago.Client
}

func onKafka(t *testing.T, change func(*Options)) stand {
	t.Helper()
	brokers := os.Getenv("E2E_KAFKA_BROKERS")
	if brokers == "" {
		t.Skip("E2E_KAFKA_BROKERS is not set: no real Kafka to test with")
	}
	source := fmt.Sprintf("dlq-test-%d", time.Now().UnixNano())
	o := Options{Sources: []string{source}, TopicFor: func(topic string) string { return topic + ".dlq" }, GroupID: "dlq-test", Create: true}
	if change != nil {
		change(&o)
	}
	scanner, err := kafka.OpenScanner(t.Context(), kafka.Options{Brokers: strings.Split(brokers, ",")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scanner.Close)
	s := stand{New(scanner.Client, o), source, &kafkago.Client{Addr: kafkago.TCP(strings.Split(brokers, ",")...)}}
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		_, err := s.client.DeleteTopics(context.WithoutCancel(t.Context()), &kafkago.DeleteTopicsRequest{Topics: o.Topics()})
		if err != nil {
			t.Logf("deleting topics: %v", err)
		}
	})
	return s
}

// produce sends letters until all are acknowledged, as a caller does. The leader of a new topic may not know of the topic yet.
func (s stand) produce(t *testing.T, letters []record.DeadLetter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		n, err := s.Produce(ctx, letters)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		letters = letters[n:]
		<-time.After(50 * time.Millisecond)
	}
}

// read returns the first n letters of a partition of the dead-letter topic.
func (s stand) read(t *testing.T, partition, n int) (letters []record.DeadLetter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(letters) < n {
		response, err := s.client.Fetch(ctx, &kafkago.FetchRequest{
			Topic: s.source + ".dlq", Partition: partition, Offset: int64(len(letters)), MinBytes: 1, MaxBytes: 4 << 20, MaxWait: time.Second,
		})
		if err != nil && ctx.Err() != nil {
			t.Fatalf("reading letter %d of %d: %v", len(letters), n, err)
		}
		if err != nil { // the client may not know of the topic yet
			<-time.After(50 * time.Millisecond)
			continue
		}
		letters = append(letters, readBatch(t, response.Records, int64(len(letters)))...)
	}
	return letters
}

// readBatch reads the letters from an offset on, because a batch may begin before it. The letters have the headers of sample.
func readBatch(t *testing.T, records kafkago.RecordReader, from int64) (letters []record.DeadLetter) {
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
		key, _ := kafkago.ReadAll(r.Key)
		value, _ := kafkago.ReadAll(r.Value)
		headers := make([]record.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = record.Header(h)
		}
		f, err := parse(key, value, headers, r.Time.UnixMilli())
		if diff := gocmp.Diff(traced(), f.Headers); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
		f.Letter.Headers = sample().Headers
		letters = append(letters, f.Letter)
	}
}

// sameBytes compares whole slices, because go-cmp compares byte by byte. A nil slice and an empty slice differ.
func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func byPosition(a, b record.DeadLetter) int { return cmp.Compare(a.Offset, b.Offset) }

func TestLettersArriveOnKafka(t *testing.T) {
	s := onKafka(t, func(o *Options) { o.Partitions = 2 })
	for range 2 { // the second time, the topic exists
		if err := s.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var letters []record.DeadLetter
	for i := range 300 {
		l := sample()
		l.Topic, l.Number, l.Offset = s.source, int32(i/100), int64(i)
		l.Timestamp = int64(i) * 1000 // in the year 1970, so retention would delete it at once
		l.Value = []byte(strings.Repeat("x", 5000))
		letters = append(letters, l)
	}
	begin := time.Now()
	s.produce(t, letters)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("300 letters took %v", took)
	}
	got := append(s.read(t, 0, 200), s.read(t, 1, 100)...)
	slices.SortFunc(got, byPosition)
	if diff := gocmp.Diff(letters, got, gocmp.Comparer(sameBytes)); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
}

func TestOverlongLetterIsCut(t *testing.T) {
	s := onKafka(t, nil)
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	letters := make([]record.DeadLetter, 3)
	for i := range letters {
		letters[i] = sample()
		letters[i].Topic, letters[i].Offset, letters[i].Number = s.source, int64(i), 0
	}
	letters[1].Value = []byte(strings.Repeat("[", 10<<20))
	s.produce(t, letters)
	got := s.read(t, 0, 3)
	slices.SortFunc(got, byPosition)
	if got[1].Cut != "value of 10485760 bytes" || len(got[1].Value) < 900<<10 || string(got[1].Key) != "k" {
		t.Errorf("cut %q to %d bytes", got[1].Cut, len(got[1].Value))
	}
	if got[0].Cut != "" || got[2].Cut != "" {
		t.Error("the letters beside it were cut as well")
	}
}

func TestAnyTimestampComesBack(t *testing.T) {
	s := onKafka(t, nil)
	if err := s.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	times := []int64{
		time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), // refused by the topic
		time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), // later than kafka-go can write
		-1, 0, 1, 1_700_000_000_000,
	}
	letters := make([]record.DeadLetter, len(times))
	for i := range letters {
		letters[i] = sample()
		letters[i].Topic, letters[i].Number, letters[i].Offset, letters[i].Timestamp = s.source, 0, int64(i), times[i]
	}
	s.produce(t, letters)
	got := s.read(t, 0, len(letters))
	slices.SortFunc(got, byPosition)
	if diff := gocmp.Diff(letters, got, gocmp.Comparer(sameBytes)); diff != "" {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
}

func TestMissingTopicSaysWhatToDo(t *testing.T) {
	s := onKafka(t, func(o *Options) { o.Create = false })
	l := sample()
	l.Topic = s.source
	_, produced := s.Produce(t.Context(), []record.DeadLetter{l})
	for name, err := range map[string]error{"Setup": s.Setup(t.Context()), "Produce": produced} {
		if err == nil || !strings.Contains(err.Error(), s.source+".dlq") || !strings.Contains(err.Error(), "DLQ_CREATE=true") {
			t.Errorf("%s: %v, want the topic and the way out", name, err)
		}
	}
}
