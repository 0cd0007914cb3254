package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/internal/connect"
	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// readDeadLetters reads the records of the dead-letter topic.
func (s *stage) readDeadLetters() (all []kafkago.Message) {
	s.t.Helper()
	c, err := config.Load(func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }, nil)
	s.change(err)
	log, err := connect.OpenTopicLog(s.t.Context(), c, slog.New(slog.DiscardHandler), []string{s.topic + ".dlq"})
	s.change(err)
	defer log.Close()
	spans, err := dlq.Spans(s.t.Context(), log, []string{s.topic + ".dlq"})
	s.change(err)
	for _, span := range spans {
		_, err := log.Scan(s.t.Context(), span.Partition, span.First, span.End, func(r *record.Record) error {
			m := kafkago.Message{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Time: time.UnixMilli(r.Timestamp)}
			headers, err := recordbatch.ParseHeaders(r.Headers)
			for _, h := range headers {
				m.Headers = append(m.Headers, kafkago.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
			}
			all = append(all, m)
			return err
		})
		s.change(err)
	}
	return all
}

// replaceDeadLetters deletes the dead-letter topic and creates it again with these letters.
func (s *stage) replaceDeadLetters(with []kafkago.Message) {
	s.t.Helper()
	name := s.topic + ".dlq"
	_, err := s.admin.DeleteTopics(s.t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{name}})
	s.change(err)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the deletion takes some time
		created, err := s.admin.CreateTopics(s.t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
			Topic: name, NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: []kafkago.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}},
		}}})
		if err == nil && created.Errors[name] == nil {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err, created)
		}
	}
	w := &kafkago.Writer{
		Addr: s.admin.Addr, Topic: name, RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond, MaxAttempts: 50,
		Transport: s.admin.Transport,
	}
	defer w.Close()
	s.change(w.WriteMessages(s.t.Context(), with...))
}

// header returns the value of a header of a letter.
func header(m *kafkago.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// TestVerifyMissesALetter removes one letter from the dead-letter topic, and puts it back.
func TestVerifyMissesALetter(t *testing.T) {
	s := newStage(t)
	s.consume()
	s.produce(400)
	s.verified()
	whole := s.readDeadLetters()
	if len(whole) != s.deadLetters {
		t.Fatalf("%d letters, want %d", len(whole), s.deadLetters)
	}

	gone := whole[len(whole)/2]
	s.replaceDeadLetters(append(append([]kafkago.Message(nil), whole[:len(whole)/2]...), whole[len(whole)/2+1:]...))
	code, out := s.verify()
	if code != exitFound || !strings.Contains(out, fmt.Sprintf("%d dead-lettered", s.deadLetters-1)) || !strings.Contains(out, " 0 missing, 0 doubled, 0 unknown, 1 dead letter missing") {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	place := header(&gone, "__connect.errors.offset")
	if part := header(&gone, "waterwheel.part"); part != "" {
		place += "[" + part + "]"
	}
	for _, says := range []string{fmt.Sprintf("%s/%s: 1 without a dead letter", s.topic, header(&gone, "__connect.errors.partition")), "offset " + place + "."} {
		if !strings.Contains(out, says) {
			t.Errorf("%q is not said:\n%s", says, out)
		}
	}

	s.replaceDeadLetters(whole)
	s.verified()
}

// TestVerifyOfDeletedLetters deletes letters as an operator does after a redrive.
func TestVerifyOfDeletedLetters(t *testing.T) {
	s := newStage(t)
	stop := s.consume()
	s.produce(400)
	s.verified()
	stop()
	half := int64(s.deadLetters / 2)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the client must first learn of the topic
		_, err := s.admin.Transport.RoundTrip(t.Context(), s.admin.Addr, &deleteRecords{s.topic + ".dlq", 0, half})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	code, out := s.verify()
	for _, says := range []string{
		fmt.Sprintf("Dead letters before offset %d of %s.dlq/0 were deleted.", half, s.topic), " 0 dead letters missing, 0 damaged buckets, ",
		fmt.Sprintf("%d dead-lettered", int64(s.deadLetters)-half), fmt.Sprintf(", %d dead letters perhaps deleted", half),
	} {
		if code != exitDone || !strings.Contains(out, says) {
			t.Fatalf("exit code %d, %q is not said:\n%s", code, says, out)
		}
	}
}
