package main

import (
	"context"
	"fmt"
	"log/slog"

	"waterwheel/config"
	"waterwheel/kafka"
	"waterwheel/record"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

// recordLog is verify.Log in Kafka.
type recordLog struct{ *kafka.Scanner }

// Records implements verify.Log.
func (l *recordLog) Records(ctx context.Context, src timeseries.Source, from, to int64, each func(record.Record) error) (int64, error) {
	read := int64(-1) // the first offset that was read
	first, err := l.Scan(ctx, record.Partition{Topic: src.Topic, Number: src.Partition}, from, to, func(r *record.Record) error {
		if read < 0 {
			read = r.Offset
		}
		return each(*r)
	})
	if err == nil && read >= 0 && read < first {
		err = fmt.Errorf("retention removed the records below offset %d while they were read: verify again from there", first)
	}
	return first, err
}

// openVerified connects to Kafka for a topic and its dead letters.
func openVerified(ctx context.Context, c config.Config, log *slog.Logger, topic string) (*kafka.Scanner, error) {
	o := kafkaOptions(c, log)
	o.Topics = []string{topic}
	if c.DLQ.Topic != "" {
		letters := letterOptions(c)
		o.Topics = append(o.Topics, letters.TopicFor(topic))
	}
	return kafka.OpenScanner(ctx, o)
}

func closeDatabase(d *sink.Database) {
	ctx, cancel := context.WithTimeout(context.Background(), closingTimeout)
	defer cancel()
	_ = d.Close(ctx) // nothing waits to be written
}
