package kafka

import (
	"context"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"waterwheel/internal/record"
)

// Bounds are the first offset that the partition still has and the one after its last, as far as the client's isolation
// lets it read: with ReadCommitted the end is before the first open transaction, else it is the high watermark. They
// go by the topic's name: look at its id again before acting on them.
func (c *Client) Bounds(ctx context.Context, of record.Partition) (first, end int64, err error) {
	if first, err = c.listOffset(ctx, of, kafkago.FirstOffset, c.options.Isolation); err != nil {
		return 0, 0, err
	}
	if end, err = c.listOffset(ctx, of, kafkago.LastOffset, c.options.Isolation); err != nil {
		return 0, 0, err
	}
	return first, end, nil
}

// HighWatermark is the offset after the partition's last record, whoever may read that.
func (c *Client) HighWatermark(ctx context.Context, of record.Partition) (int64, error) {
	return c.listOffset(ctx, of, kafkago.LastOffset, ReadUncommitted)
}

// OffsetAt is the first offset whose record has this time (milliseconds since 1970) or a later one, the end when none has.
func (c *Client) OffsetAt(ctx context.Context, of record.Partition, time int64) (int64, error) {
	// The end is asked first: a record that arrives between the two questions must not be passed over.
	end, err := c.listOffset(ctx, of, kafkago.LastOffset, c.options.Isolation)
	if err != nil {
		return 0, err
	}
	offset, err := c.listOffset(ctx, of, max(time, 0), c.options.Isolation) // negative times are Kafka's first and last
	if err != nil {
		return 0, err
	}
	if offset < 0 {
		return end, nil
	}
	return offset, nil
}

// listOffset asks the partition's leader one question. kafka-go's message splits and merges questions, and loses errors
// when it merges; with a single one it passes the answer through.
func (c *Client) listOffset(ctx context.Context, of record.Partition, time int64, isolation Isolation) (int64, error) {
	request := &listoffsets.Request{
		ReplicaID:      -1,
		IsolationLevel: int8(isolation),
		Topics: []listoffsets.RequestTopic{{
			Topic:      of.Topic,
			Partitions: []listoffsets.RequestPartition{{Partition: of.Number, CurrentLeaderEpoch: -1, Timestamp: time}},
		}},
	}
	response, err := ask[*listoffsets.Response](ctx, c, of, 0, request)
	if err != nil {
		return 0, err
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 || response.Topics[0].Partitions[0].Partition != of.Number {
		return 0, NoAnswer(protocol.ListOffsets, of, errOtherPartition)
	}
	answer := response.Topics[0].Partitions[0]
	return answer.Offset, CodeError(protocol.ListOffsets, of, answer.ErrorCode)
}
