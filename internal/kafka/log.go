package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// damagedTries is how often a record batch may come damaged before its partition stops: a copy may be damaged on its way.
const damagedTries = 3

// Log is a partition under one topic id. What a broker sent is kept as it came, compressed, until all of it was given out: so
// a fetch takes a bounded amount of memory, whatever its records unfold to. It is not for concurrent use, and a batch is valid
// until its release.
//
// Errors of its exported methods are record.ErrOutOfRange, record.ErrTopicGone, a *record.StopError where trying again does
// not help, or an outage.
type Log struct {
	client *Client
	record.Partition
	topicID   [16]byte
	isolation Isolation

	held    int64               // bytes of the answer
	quiet   bool                // the last answer brought nothing
	end     int64               // of what may be read, as the answer says
	high    int64               // of the log
	reader  *recordbatch.Reader // of the answer. Nil means that nothing is held.
	damaged int                 // pieces in a row that came damaged
}

// Log returns a partition's. The topic must be one that the client routes requests for.
func (c *Client) Log(of record.Partition, topicID [16]byte) *Log {
	return &Log{client: c, Partition: of, topicID: topicID, isolation: c.options.Isolation}
}

// Await sees to it that what follows offset is at hand, or that nothing came in time (FetchWait), and returns how many bytes
// it holds. What an earlier answer brought is not asked for again, from any of its offsets on. most bounds what the broker
// sends, as far as its first record batch does.
func (l *Log) Await(ctx context.Context, offset, most int64) (int64, error) {
	err := l.await(ctx, offset, most)
	return l.left(), l.classified(err)
}

// Take gives out the next piece of what Await has got, from the same offset on. An error is the first thing that is left
// when it is returned, at that offset; the next Await asks the broker again.
func (l *Log) Take(offset int64, bytes int) (record.Batch, error) {
	batch, err := l.take(offset, recordbatch.PieceOf(bytes))
	if err != nil {
		return record.Batch{}, l.classified(err)
	}
	l.damaged = 0
	return batch, nil
}

// Bounds asks for both ends of the log, and where Options.Start points to between them. They go by the topic's name: look at
// its id again before acting on them.
func (l *Log) Bounds(ctx context.Context) (b record.Bounds, err error) {
	defer func() { err = l.classified(err) }()
	if b.First, b.End, err = l.client.Bounds(ctx, l.Partition); err != nil {
		return b, err
	}
	if b.High, err = l.client.HighWatermark(ctx, l.Partition); err != nil {
		return b, err
	}
	switch start := l.client.start(l.Topic); {
	case start.Latest:
		b.Start = b.End
	case !start.Time.IsZero():
		b.Start, err = l.client.OffsetAt(ctx, l.Partition, start.Time.UnixMilli())
	default:
		b.Start = b.First
	}
	return b, err
}

// Partitions is how many partitions the topic has.
func (l *Log) Partitions(ctx context.Context) (int32, error) {
	topics, err := l.client.Topics(ctx, l.Topic)
	if err == nil {
		err = topics[0].Err
	}
	switch {
	case err != nil:
		return 0, l.classified(err)
	case topics[0].ID != l.topicID:
		return 0, fmt.Errorf("%w: topic %s was created again", record.ErrTopicGone, l.Topic)
	}
	return int32(len(topics[0].Partitions)), nil
}

// Timestamp is the timestamp of the first record from an offset on, of an open or aborted transaction too; 0 when there is none. It is fetched,
// as little as a broker sends and as a record batch unfolds to.
func (l *Log) Timestamp(ctx context.Context, offset int64) (int64, error) {
	isolation := l.isolation
	l.isolation = ReadUncommitted
	defer func() {
		l.drop()
		l.isolation = isolation
	}()
	if err := l.await(ctx, offset, 1); err != nil {
		return 0, err
	}
	batch, err := l.take(offset, recordbatch.Piece{Bytes: 1, Records: 1})
	if err != nil || len(batch.Records) == 0 {
		return 0, err
	}
	timestamp := max(0, batch.Records[0].Timestamp)
	batch.Release()
	return timestamp, nil
}

// drop forgets what is at hand. The answer's memory goes to the next fetch of any partition once what was given out of it is
// released as well.
func (l *Log) drop() {
	if l.reader != nil {
		l.reader.Close()
	}
	l.reader, l.held = nil, 0
}

// await is Await, with errors to Classify.
func (l *Log) await(ctx context.Context, offset, most int64) error {
	if l.reader != nil && l.reader.Has(offset) {
		return nil
	}
	l.drop()
	o := &l.client.options
	request := &fetchRequest{
		Place: record.Place{Partition: l.Partition, Offset: offset}, topicID: l.topicID, maxBytes: int32(min(most, int64(o.FetchBytes))),
		wait: o.FetchWait, isolation: l.isolation, resting: l.quiet && l.isolation == o.Isolation,
	}
	if request.maxBytes == o.FetchBytes { // memory is short: lend no buffer
		request.memory = l.client.answers.lend
	}
	answer, err := l.client.fetch(ctx, request)
	if err != nil {
		l.quiet = false // alone until it is well again: brokers answer at once, for all that wait, where a partition has an error
		if ctx.Err() == nil {
			l.client.metrics.count(l.Partition, err)
		}
		return err
	}
	l.held, l.end, l.high, l.quiet = int64(cap(answer.memory)), request.end(answer), answer.highWatermark, len(answer.records) == 0
	l.reader = l.client.memory.NewReader(recordbatch.Set{
		Partition: l.Partition, Bytes: answer.records, From: offset, End: answer.highWatermark, Aborted: answer.aborted,
		Free: func() { l.client.answers.takeBack(answer.memory) },
	})
	return nil
}

// take is Take, with errors to Classify.
func (l *Log) take(offset int64, most recordbatch.Piece) (record.Batch, error) {
	if l.reader == nil {
		panic("kafka: Take without Await")
	}
	batch, err := l.reader.Take(offset, most)
	if err != nil {
		l.drop()
		l.client.metrics.count(l.Partition, err)
		return batch, NoAnswer(protocol.Fetch, l.Partition, err)
	}
	batch.End, batch.High, batch.Left, batch.More = l.end, l.high, l.left(), l.reader.Has(batch.Next)
	return batch, nil
}

// left is the memory in bytes that is held between two pieces.
func (l *Log) left() int64 {
	if l.reader == nil {
		return 0
	}
	return l.held + l.reader.Kept()
}

// classified turns an error into what who reads a partition acts on.
func (l *Log) classified(err error) error {
	switch Classify(err) {
	case OutOfRange:
		return fmt.Errorf("%w: %w", record.ErrOutOfRange, err)
	case LookAtMetadata:
		return fmt.Errorf("%w: %w", record.ErrTopicGone, err)
	case StopIfPersists:
		if l.damaged++; l.damaged < damagedTries {
			return err
		}
		return &record.StopError{Reason: "corrupt", Detail: err.Error()}
	case StopPartition, StopProgram:
		return &record.StopError{Reason: "kafka", Detail: err.Error()}
	}
	return err
}
