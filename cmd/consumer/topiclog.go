package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
)

const (
	// scanBytes is what one fetch of a scan brings, scanWait how long the broker waits for it.
	scanBytes = 4 << 20
	scanFew   = 64 << 10 // where one record is wanted
	scanWait  = 100 * time.Millisecond
	// scanRecord is more than any record has: what is sent somewhere else must be whole.
	scanRecord = 1 << 30
	// scanTries is how often something is tried in vain, scanPause the time between.
	scanTries = 20
	scanPause = 250 * time.Millisecond
)

// topicLog is dlq.Log in Kafka. It reads what transactions leave uncommitted too: letters are written without.
type topicLog struct {
	client *kafka.Client
	ids    map[string][16]byte
}

// openTopicLog connects to Kafka for reading topics from outside any group.
func openTopicLog(ctx context.Context, c config.Config, log *slog.Logger, topics []string) (*topicLog, error) {
	o := sourceOptions(c, log)
	o.Topics, o.Isolation, o.FetchBytes, o.FetchWait = topics, kafka.ReadUncommitted, scanBytes, scanWait
	o.RecordBytes = scanRecord
	client, err := kafka.Open(ctx, o, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return &topicLog{client: client, ids: map[string][16]byte{}}, nil
}

// close closes the connections.
func (l *topicLog) close() { l.client.Close() }

// missing tells which of the topics do not exist.
func (l *topicLog) missing(ctx context.Context, topics []string) ([]string, error) {
	answers, err := l.client.Topics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("looking at the topics: %w", err)
	}
	var missing []string
	for _, t := range answers {
		if kafka.Classify(t.Err) == kafka.LookAtMetadata {
			missing = append(missing, t.Name)
		}
	}
	return missing, nil
}

// Partitions implements dlq.Log.
func (l *topicLog) Partitions(ctx context.Context, topic string) ([]int32, error) {
	var found kafka.Topic
	err := kafka.Patiently(ctx, func() error {
		answers, err := l.client.Topics(ctx, topic)
		if err == nil {
			found, err = answers[0], answers[0].Err
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking at topic %q: %w", topic, err)
	}
	l.ids[topic] = found.ID
	list := make([]int32, len(found.Partitions))
	for i, p := range found.Partitions {
		list[i] = p.ID
	}
	return list, nil
}

// TopicID implements dlq.Log.
func (l *topicLog) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	if _, known := l.ids[topic]; !known {
		if _, err := l.Partitions(ctx, topic); err != nil {
			return [16]byte{}, err
		}
	}
	return l.ids[topic], nil
}

// Bounds implements dlq.Log.
func (l *topicLog) Bounds(ctx context.Context, topic string, partition int32) (first, end int64, err error) {
	err = kafka.Patiently(ctx, func() error {
		first, end, err = l.client.Bounds(ctx, topic, partition)
		return err
	})
	return first, end, err
}

// Read implements dlq.Log.
func (l *topicLog) Read(ctx context.Context, topic string, partition int32, from, to int64, each func(*dlq.Record) error) error {
	id, err := l.TopicID(ctx, topic)
	if err != nil {
		return err
	}
	moves := movement{place: dlq.Place{Topic: topic, Partition: partition}}
	cursor := l.client.Cursor(topic, id, partition)
	for from < to {
		var batch *kafka.Batch
		err := kafka.Patiently(ctx, func() (err error) {
			batch, err = cursor.FetchSome(ctx, from, bytesOf(to-from))
			return err
		})
		if kafka.Classify(err) == kafka.OutOfRange {
			if from, err = l.behind(ctx, topic, partition, from); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		next := batch.Next
		err = giveOut(batch, to, each)
		batch.Release()
		switch {
		case errors.Is(err, dlq.ErrStop):
			return nil
		case err != nil:
			return err
		}
		if err := moves.check(from, next, to); err != nil {
			return err
		}
		from = next
	}
	return nil
}

// bytesOf is what a fetch brings for so many records: a few are looked up in a log of any size.
func bytesOf(records int64) int32 { return int32(min(scanFew+records*(scanFew/64), scanBytes)) }

// movement sees to it that reading a log comes to an end: one that was truncated meanwhile gives out nothing for ever.
type movement struct {
	place dlq.Place
	idle  int // fetches in a row that brought nothing
}

// check takes the offset of a fetch, the one after it, and the one that is read up to.
func (m *movement) check(from, next, to int64) error {
	if m.idle++; next > from {
		m.idle = 0
	}
	if m.idle == scanTries {
		return fmt.Errorf("%s gives out nothing at offset %d, though it reached to %d: was it truncated?", m.place, from, to)
	}
	return nil
}

// behind is where a log goes on whose records at an offset have been deleted while it was read.
func (l *topicLog) behind(ctx context.Context, topic string, partition int32, offset int64) (int64, error) {
	first, end, err := l.Bounds(ctx, topic, partition)
	if err != nil {
		return 0, err
	}
	if offset >= first {
		return 0, fmt.Errorf("%s/%d ends at %d now, before offset %d: was it made anew?", topic, partition, end, offset)
	}
	return first, nil
}

func giveOut(batch *kafka.Batch, to int64, each func(*dlq.Record) error) error {
	for i := range batch.Records {
		r := &batch.Records[i]
		if r.Offset >= to {
			return nil
		}
		if r.Unreadable != "" {
			continue // it is to be passed over
		}
		headers, err := kafka.ParseHeaders(r.RawHeaders)
		if err != nil {
			return fmt.Errorf("reading the headers of the record at offset %d: %w", r.Offset, err)
		}
		out := dlq.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: slices.Grow([]dlq.Header(nil), len(headers)+1)}
		for _, h := range headers {
			out.Headers = append(out.Headers, dlq.Header{Key: h.Key, Value: h.Value})
		}
		if err := each(&out); err != nil {
			return err
		}
	}
	return nil
}
