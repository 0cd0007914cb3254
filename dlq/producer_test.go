package dlq

import (
	"context"
	"errors"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/internal/kafka"
	"waterwheel/internal/record"
)

// shelf is a dead-letter topic with one partition. Its answer depends on the request.
type shelf struct {
	answer   func(messages []kafka.Message) error
	requests int
	written  []kafka.Message
	routes   []string
}

// Partitions implements writer.
func (s *shelf) Partitions(context.Context, string) (int, error) { return 1, nil }

// Write implements writer.
func (s *shelf) Write(_ context.Context, _ record.Partition, messages ...kafka.Message) error {
	s.requests++
	err := s.answer(messages)
	if err == nil {
		s.written = append(s.written, messages...)
	}
	return err
}

// Route implements writer.
func (s *shelf) Route(topics ...string) { s.routes = topics }

// Create implements writer.
func (s *shelf) Create(context.Context, ...kafka.NewTopic) error { return nil }

// Close implements writer.
func (s *shelf) Close() {}

// producer returns a producer that writes to the shelf.
func (s *shelf) producer() *Producer {
	return &Producer{options: Options{TopicFor: func(string) string { return "dead" }}, writer: s}
}

// letterAt returns a short letter for a record at an offset.
func letterAt(offset int64, value []byte) record.DeadLetter {
	return record.DeadLetter{
		Place: record.Place{Partition: record.Partition{Topic: "events"}, Offset: offset}, Part: record.WholeRecord, Value: value, Timestamp: 1,
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

// TestRequestsAreBoundedAndOfOnePartition checks that letters are sent in order, with as many of one partition as fit into a
// request.
func TestRequestsAreBoundedAndOfOnePartition(t *testing.T) {
	const most = 512 << 10
	letters := make([]record.DeadLetter, 100)
	for i := range letters {
		letters[i] = letterAt(int64(i), make([]byte, (i%10)*30_000))
		letters[i].Number = int32(i / 70)
	}
	letters[50].Value = make([]byte, most)
	var requests [][]kafka.Message
	s := &shelf{answer: func(messages []kafka.Message) error {
		requests = append(requests, messages)
		return nil
	}}
	if n, err := s.producer().Produce(t.Context(), letters); n != len(letters) || err != nil {
		t.Fatal(n, err)
	}
	next := 0
	for _, messages := range requests {
		bytes, partitions := 0, map[string]bool{}
		for _, m := range messages {
			f, err := parse(nil, m.Value, m.Headers, 0)
			if err != nil || f.Letter.Offset != int64(next) {
				t.Fatalf("letter %+v, %v where %d was due", f.Letter.Place, err, next)
			}
			next++
			bytes += len(m.Value)
			partitions[f.Letter.Partition.String()] = true
		}
		if bytes > most && len(messages) > 1 || len(partitions) != 1 {
			t.Errorf("a request of %d letters has %d bytes, of %v", len(messages), bytes, partitions)
		}
	}
	if next != len(letters) || len(requests) > 40 {
		t.Errorf("%d of %d letters came out, in %d requests", next, len(letters), len(requests))
	}
}

func TestCutKeepsTheEnvelope(t *testing.T) {
	long := draft{sample(), traced()}
	long.Value = make([]byte, 10<<20)
	got := long.cut(8 << 10)
	if got.size() > 8<<10 || len(got.Value) == 0 || string(got.Key) != "k" || len(got.own) != 2 {
		t.Errorf("cut to %d bytes, value %d, key %q, %d headers", got.size(), len(got.Value), got.Key, len(got.own))
	}
	if got.Cut != "value of 10485760 bytes" {
		t.Errorf("Cut = %q", got.Cut)
	}
	long.Key = make([]byte, 1<<20)
	got = long.cut(8 << 10)
	if got.size() > 8<<10 || got.Key != nil || got.own != nil || got.Offset != long.Offset {
		t.Errorf("a long key: cut to %d bytes, key %d", got.size(), len(got.Key))
	}
	if got.Cut != "2 headers, key of 1048576 bytes, value of 10485760 bytes" {
		t.Errorf("Cut = %q", got.Cut)
	}
}

// TestCutLeavesTheKey checks that headers that are too long are removed before the key, and that a value that fits with the key
// is kept.
func TestCutLeavesTheKey(t *testing.T) {
	d := draft{sample(), []record.Header{{Key: "long", Value: make([]byte, 1<<20)}}}
	got := d.cut(8 << 10)
	if string(got.Key) != "k" || len(got.Value) != len(d.Value) || got.own != nil || got.Cut != "1 header" {
		t.Errorf("key %q, value of %d bytes, %d headers, cut %q", got.Key, len(got.Value), len(got.own), got.Cut)
	}
	d.Cut = "what was cut before"
	if got := d.cut(8 << 10); !strings.HasPrefix(got.Cut, d.Cut+", ") {
		t.Errorf("cut %q", got.Cut)
	}
}

// TestOverheadBoundsTheEnvelope checks the bound with the longest names and message. A letter without its record must be as small
// as possible.
func TestOverheadBoundsTheEnvelope(t *testing.T) {
	l := sample()
	l.Topic, l.Reason, l.Message, l.Part = strings.Repeat("t", 249), strings.Repeat("r", 40), strings.Repeat("m", 5000), 9
	l.Key, l.Value, l.Headers, l.Cut = nil, nil, nil, "17 headers, key of 1048576 bytes, value of 10485760 bytes"
	group := strings.Repeat("g", 255)
	d := draft{DeadLetter: l}
	whole := Message(&d.DeadLetter, nil, group)
	if n := whole.Size(); n > letterOverhead {
		t.Errorf("the envelope takes %d bytes, more than %d", n, letterOverhead)
	}
	d = d.cut(letterOverhead)
	least := Message(&d.DeadLetter, nil, group)
	if n := least.Size(); n > whole.Size()-maxMessage+leastMessage || len(d.Message) > leastMessage {
		t.Errorf("the smallest letter takes %d bytes, %d with the whole message", n, whole.Size())
	}
}

// TestProduceEndsWithTheFirstFailure checks that nothing is sent after a failed request, and that the letters before it need not
// be sent again.
func TestProduceEndsWithTheFirstFailure(t *testing.T) {
	failure := errors.New("no answer")
	s := &shelf{}
	s.answer = func([]kafka.Message) error {
		if s.requests == 3 {
			return failure
		}
		return nil
	}
	letters := make([]record.DeadLetter, 10)
	for i := range letters {
		letters[i] = letterAt(int64(i), make([]byte, 256<<10))
	}
	n, err := s.producer().Produce(t.Context(), letters)
	if !errors.Is(err, failure) || s.requests != 3 || n != 2 || len(s.written) != n {
		t.Fatalf("%d of %d written, %v after %d requests", n, len(s.written), err, s.requests)
	}
	if errors.Is(err, kafkago.UnknownTopicOrPartition) {
		t.Errorf("an outage looks like a missing topic: %v", err)
	}
}

// TestLetterIsCutToWhatItsTopicTakes checks that as much of a letter is written as the topic accepts, whatever part is too long.
// For a topic that accepts no letter, the error comes at once and says what to do.
func TestLetterIsCutToWhatItsTopicTakes(t *testing.T) {
	header := func(size int) []byte { // one header, h, with a value of this many zeros: 1 MiB or 3
		length := map[int]string{1 << 20: "\x80\x80\x80\x01", 3 << 20: "\x80\x80\x80\x03"}[size]
		return append([]byte("\x02\x02h"+length), make([]byte, size)...)
	}
	for name, long := range map[string]record.DeadLetter{
		"value":   {Key: []byte("k"), Value: make([]byte, 3<<20)},
		"key":     {Key: make([]byte, 3<<20), Value: []byte("v")},
		"headers": {Key: []byte("k"), Value: []byte("v"), Headers: header(3 << 20)},
		"all":     {Key: make([]byte, 1<<20), Value: make([]byte, 1<<20), Headers: header(1 << 20)},
	} {
		long.Place = letterAt(1, nil).Place
		for _, most := range []int{900_000, 100_000, 10_000, 1200, 100} {
			s := &shelf{answer: func(messages []kafka.Message) error {
				bytes := 0
				for _, m := range messages {
					bytes += len(m.Key) + len(m.Value)
					for _, h := range m.Headers {
						bytes += len(h.Key) + len(h.Value)
					}
				}
				if bytes > most {
					return kafkago.MessageSizeTooLarge
				}
				return nil
			}}
			n, err := s.producer().Produce(t.Context(), []record.DeadLetter{letterAt(0, nil), long, letterAt(2, nil)})
			if most == 100 {
				stop, stops := errors.AsType[*record.StopError](err)
				if !stops || stop.Reason != "dead_letter_refused" || n != 0 || s.requests > 15 {
					t.Errorf("%s of at most %d bytes: %d written, %v after %d requests", name, most, n, err, s.requests)
				}
				continue
			}
			if err != nil || n != 3 || len(s.written) != 3 {
				t.Errorf("%s of at most %d bytes: %d, %v, %d written", name, most, n, err, len(s.written))
			}
		}
	}
}

// TestALetterThatMayNotBeWrittenSaysWhichRightIsLacking also checks that no right is named in an outage.
func TestALetterThatMayNotBeWrittenSaysWhichRightIsLacking(t *testing.T) {
	for code, says := range map[kafkago.Error]bool{kafkago.TopicAuthorizationFailed: true, kafkago.NotEnoughReplicas: false} {
		s := &shelf{answer: func([]kafka.Message) error { return code }}
		_, err := s.producer().Produce(t.Context(), []record.DeadLetter{letterAt(0, nil)})
		if !errors.Is(err, code) || strings.Contains(err.Error(), "WRITE on the dead-letter topic") != says {
			t.Error(err)
		}
	}
}
