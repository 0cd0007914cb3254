package connect

import (
	"context"
	"log/slog"

	"waterwheel/config"
	"waterwheel/internal/kafka"
)

// scanRecord is more than any record has: what is sent somewhere else must be whole.
const scanRecord = 1 << 30

// OpenTopicLog connects to Kafka for reading topics from outside any group. What transactions leave uncommitted is read too:
// letters are written without.
func OpenTopicLog(ctx context.Context, c config.Config, log *slog.Logger, topics []string) (*kafka.Scanner, error) {
	o := KafkaOptions(c, log)
	o.Topics, o.Isolation, o.Decoding.RecordBytes = topics, kafka.ReadUncommitted, scanRecord
	return kafka.OpenScanner(ctx, o)
}
