package kafka

import (
	"context"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"waterwheel/internal/record"
)

// Bounds returns the first offset that the partition still has, and the offset after the last that may be read. With
// ReadCommitted the end is before the first open transaction, else it is the high watermark. The requests use the topic's name,
// so compare its id again before acting on the answer.
func (c *Client) Bounds(ctx context.Context, of record.Partition) (first, end int64, err error) {
	if first, err = c.listOffset(ctx, of, kafkago.FirstOffset, c.options.Isolation); err != nil {
		return 0, 0, err
	}
	if end, err = c.listOffset(ctx, of, kafkago.LastOffset, c.options.Isolation); err != nil {
		return 0, 0, err
	}
	return first, end, nil
}

// HighWatermark returns the offset after the partition's last replicated record, whatever the isolation.
func (c *Client) HighWatermark(ctx context.Context, of record.Partition) (int64, error) {
	return c.listOffset(ctx, of, kafkago.LastOffset, ReadUncommitted)
}

// OffsetAt returns the first offset whose record has this time or a later one, in milliseconds since 1970. When there is none, it
// returns the end.
func (c *Client) OffsetAt(ctx context.Context, of record.Partition, time int64) (int64, error) {
	// OffsetAt asks for the end first, so that it does not skip a record that arrives between the two requests.
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

// listOffset asks the partition's leader one question. kafka-go's request splits and merges questions and loses errors when it
// merges. It passes a single answer through.
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
