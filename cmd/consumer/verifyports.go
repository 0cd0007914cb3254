package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"waterwheel/config"
	"waterwheel/dlq"
	"waterwheel/kafka"
	"waterwheel/record"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

// recordLog is verify.Log in Kafka.
type recordLog struct{ client *kafka.Client }

// Records implements verify.Log.
func (l *recordLog) Records(ctx context.Context, src timeseries.Source, from, to int64, each func(record.Record) error) (int64, error) {
	first := from
	moves := movement{place: dlq.Place{Topic: src.Topic, Partition: src.Partition}}
	cursor := l.client.Cursor(src.Topic, src.TopicID, src.Partition)
	for at := from; at < to; {
		var batch *kafka.Batch
		err := kafka.Patiently(ctx, func() (err error) {
			batch, err = cursor.Fetch(ctx, at)
			return err
		})
		if kafka.Classify(err) == kafka.OutOfRange {
			start, err := l.behind(ctx, src, at)
			if err == nil && at > first {
				err = fmt.Errorf("retention removed the records below offset %d while they were read: verify again from there", start)
			}
			if err != nil {
				return first, err
			}
			first = min(start, to)
			at = first
			continue
		}
		if err != nil {
			return first, err
		}
		next := batch.Next
		err = eachRecord(batch, at, to, each)
		batch.Release()
		if err != nil {
			return first, err
		}
		if err := moves.check(at, next, to); err != nil {
			return first, err
		}
		at = next
	}
	return first, nil
}

// behind is where the log begins whose records at an offset are gone.
func (l *recordLog) behind(ctx context.Context, src timeseries.Source, offset int64) (int64, error) {
	log := topicLog{client: l.client}
	return log.behind(ctx, src.Topic, src.Partition, offset)
}

// eachRecord calls each for the records of a batch in [from, to): a batch may begin before the offset asked for.
func eachRecord(batch *kafka.Batch, from, to int64, each func(record.Record) error) error {
	for i := range batch.Records {
		r := &batch.Records[i]
		if r.Offset < from {
			continue
		}
		if r.Offset >= to {
			return nil
		}
		if r.Unreadable != "" {
			continue // no record, for the writer neither
		}
		if err := each(record.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Cut: r.Cut}); err != nil {
			return err
		}
	}
	return nil
}

// openVerified connects to Kafka for a topic and its dead letters.
func openVerified(ctx context.Context, c config.Config, log *slog.Logger, topic string) (*kafka.Client, error) {
	o := sourceOptions(c, log)
	o.Topics, o.FetchBytes, o.FetchWait = []string{topic}, scanBytes, scanWait
	if c.DLQ.Topic != "" {
		letters := letterOptions(c)
		o.Topics = append(o.Topics, letters.TopicFor(topic))
	}
	return kafka.Open(ctx, o, prometheus.NewRegistry())
}

func closeDatabase(d *sink.Database) {
	ctx, cancel := context.WithTimeout(context.Background(), closingTimeout)
	defer cancel()
	_ = d.Close(ctx) // nothing waits to be written
}
