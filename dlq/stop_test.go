package dlq

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	produceapi "github.com/segmentio/kafka-go/protocol/produce"
)

// shelf is a broker with one dead-letter topic of one partition, which answers each Produce by what it is given.
type shelf struct {
	answer   func(records []kafka.Message) error
	requests int
	written  []string // values, in their order
}

// RoundTrip implements kafka.RoundTripper.
func (s *shelf) RoundTrip(_ context.Context, _ net.Addr, request kafka.Request) (kafka.Response, error) {
	switch r := request.(type) {
	case *metadata.Request:
		return &metadata.Response{Topics: []metadata.ResponseTopic{{
			Name: r.TopicNames[0], Partitions: []metadata.ResponsePartition{{}},
		}}}, nil
	case *produceapi.Request:
		s.requests++
		records := messagesOf(r)
		err := s.answer(records)
		var code kafka.Error
		if err != nil && !errors.As(err, &code) {
			return nil, err
		}
		if err == nil {
			for _, m := range records {
				s.written = append(s.written, string(m.Value))
			}
		}
		return &produceapi.Response{Topics: []produceapi.ResponseTopic{{
			Topic: r.Topics[0].Topic, Partitions: []produceapi.ResponsePartition{{ErrorCode: int16(code)}},
		}}}, nil
	}
	return nil, errors.New("not answered")
}

func messagesOf(r *produceapi.Request) (messages []kafka.Message) {
	for records := r.Topics[0].Partitions[0].RecordSet.Records; ; {
		record, err := records.ReadRecord()
		if err != nil {
			return messages
		}
		m := kafka.Message{Headers: record.Headers}
		m.Key, _ = protocol.ReadAll(record.Key)
		m.Value, _ = protocol.ReadAll(record.Value)
		messages = append(messages, m)
	}
}

// on returns a producer that writes to the shelf.
func (s *shelf) producer(t *testing.T) *Producer {
	t.Helper()
	p, err := New(Options{Brokers: []string{"nowhere:1"}, Sources: []string{"events"}, TopicFor: func(string) string { return "dead" }})
	if err != nil {
		t.Fatal(err)
	}
	p.client.Transport = s
	return p
}

// numbered are letters of so many bytes each, their values beginning with their numbers.
func numbered(n, bytes int) []Letter {
	letters := make([]Letter, n)
	for i := range letters {
		letters[i] = Letter{Topic: "events", Offset: int64(i), Part: WholeRecord, Value: make([]byte, bytes), Timestamp: 1}
		letters[i].Value[0] = byte(i)
	}
	return letters
}

// TestProduceEndsWithTheFirstFailure: what comes behind a request that fails is not sent, and what came before it need not be
// sent again.
func TestProduceEndsWithTheFirstFailure(t *testing.T) {
	s := &shelf{}
	s.answer = func([]kafka.Message) error {
		if s.requests == 3 {
			return errors.New("no answer")
		}
		return nil
	}
	err := s.producer(t).Produce(t.Context(), numbered(10, chunkBytes/2))
	var failed *ProduceError
	if !errors.As(err, &failed) || s.requests != 3 {
		t.Fatalf("%v after %d requests", err, s.requests)
	}
	if n := len(s.written); n != 2 || len(failed.Unacknowledged) != 10-n || failed.Unacknowledged[0] != n {
		t.Errorf("%d were written, %v are not acknowledged", n, failed.Unacknowledged)
	}
}

// TestLetterIsCutToWhatItsTopicTakes: whatever is too long, as much of the letter is written as the topic takes; a topic that
// takes none says so at once, and what to do.
func TestLetterIsCutToWhatItsTopicTakes(t *testing.T) {
	for name, long := range map[string]Letter{
		"value":   {Topic: "events", Key: []byte("k"), Value: make([]byte, 3<<20)},
		"key":     {Topic: "events", Key: make([]byte, 3<<20), Value: []byte("v")},
		"headers": {Topic: "events", Key: []byte("k"), Value: []byte("v"), Headers: []Header{{Key: "h", Value: make([]byte, 3<<20)}}},
		"all":     {Topic: "events", Key: make([]byte, 1<<20), Value: make([]byte, 1<<20), Headers: []Header{{Key: "h", Value: make([]byte, 1<<20)}}},
	} {
		for _, most := range []int{900_000, 100_000, 10_000, 1200, 100} {
			s := &shelf{}
			s.answer = func(records []kafka.Message) error {
				bytes := 0
				for _, m := range records {
					bytes += len(m.Key) + len(m.Value)
					for _, h := range m.Headers {
						bytes += len(h.Key) + len(h.Value)
					}
				}
				if bytes > most {
					return kafka.MessageSizeTooLarge
				}
				return nil
			}
			short := Letter{Topic: "events"}
			err := s.producer(t).Produce(t.Context(), []Letter{short, long, short})
			var failed *ProduceError
			if most == 100 {
				if !errors.As(err, new(*UntakenError)) || !errors.As(err, &failed) || len(failed.Unacknowledged) != 3 || s.requests > 15 {
					t.Errorf("%s of at most %d bytes: %v after %d requests", name, most, err, s.requests)
				}
				continue
			}
			if err != nil || len(s.written) != 3 {
				t.Errorf("%s of at most %d bytes: %v, %d written", name, most, err, len(s.written))
			}
		}
	}
}
