package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go/protocol"
)

// Piece bounds what a Cursor gives out at a time. Both may be exceeded: by one record, or by a record batch that unfolds to
// no more than Options.PieceBytes.
type Piece struct{ Bytes, Records int }

// Cursor reads one partition under one topic id, piece by piece. What a broker sent is kept as it came, compressed, until
// all of it was given out: so a fetch takes a bounded amount of memory, whatever its records unfold to. It is not for
// concurrent use, and a batch is valid until the next call.
type Cursor struct {
	client  *Client
	request FetchRequest
	answer  *fetchAnswer // nil: nothing is held
	decoder decoder
}

// Cursor returns a cursor of a partition. The topic must be one of Options.Topics.
func (c *Client) Cursor(topic string, id [16]byte, partition int32) *Cursor {
	return &Cursor{client: c, request: FetchRequest{Topic: topic, TopicID: id, Partition: partition}}
}

// Fetch is Await and Take with the largest sizes.
func (c *Cursor) Fetch(ctx context.Context, offset int64) (*Batch, error) {
	return c.FetchSome(ctx, offset, 0)
}

// FetchSome is Fetch with a bound of its own for what the broker sends.
func (c *Cursor) FetchSome(ctx context.Context, offset int64, most int32) (*Batch, error) {
	if err := c.Await(ctx, offset, most); err != nil {
		return nil, err
	}
	return c.Take(offset, PieceOf(c.client.options.PieceBytes))
}

// Await sees to it that what follows offset is at hand, or that nothing came in time (FetchWait). What an earlier answer
// brought is not asked for again, from any of its offsets on. most bounds what the broker sends, as far as its first record
// batch does; 0: Options.FetchBytes. Every error is an *Error: Classify it.
func (c *Cursor) Await(ctx context.Context, offset int64, most int32) error {
	if c.has(offset) {
		return nil
	}
	c.Drop()
	c.request.Offset, c.request.MaxBytes = offset, most
	answer, err := c.client.fetch(ctx, c.request)
	if err != nil {
		return c.failed(ctx, err)
	}
	c.answer = answer
	c.rewind(offset)
	return nil
}

// Take gives out the next piece of what Await has got, from the same offset on. An error is the first thing that is left
// when it is returned, at that offset; the next Await asks the broker again.
func (c *Cursor) Take(offset int64, most Piece) (*Batch, error) {
	if c.answer == nil {
		panic("kafka: Take without Await")
	}
	if offset != c.decoder.next {
		c.rewind(offset)
	}
	batch := c.client.batches.Get().(*Batch)
	batch.home = &c.client.batches
	batch.Next, batch.HighWatermark, batch.LastStable, batch.LogStart = offset, c.answer.highWatermark, c.answer.lastStable, c.answer.logStart
	err := c.decoder.piece(batch, most)
	if err == nil {
		return batch, nil
	}
	if bad, ok := errors.AsType[*unreadable](err); ok {
		err = c.skip(batch, bad)
	}
	c.Drop()
	if err != nil {
		batch.Release()
		return nil, c.failed(context.Background(), err)
	}
	return batch, nil
}

// Drop forgets what is at hand.
func (c *Cursor) Drop() {
	c.decoder.close()
	c.answer = nil
}

// Size is the memory in bytes that is held between two pieces.
func (c *Cursor) Size() int64 {
	if c.answer == nil {
		return 0
	}
	return int64(cap(c.answer.response)) + c.decoder.kept()
}

// has tells whether what follows an offset is in the answer.
func (c *Cursor) has(offset int64) bool {
	switch {
	case c.answer == nil || offset < c.request.Offset || offset > c.decoder.next:
		return false
	case offset == c.decoder.next:
		return c.decoder.more()
	}
	return true
}

// rewind begins the answer anew, to give out what it has from an offset on.
func (c *Cursor) rewind(offset int64) {
	c.decoder.close()
	c.decoder = decoder{
		set: c.answer.records, next: offset, first: offset, aborted: newAbortedTransactions(c.answer.aborted),
		codecs: &c.client.codecs, unfolders: c.client.unfolders, recordBytes: c.client.options.RecordBytes,
	}
}

func (c *Cursor) failed(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		c.client.metrics.count(err)
	}
	return unanswered(protocol.Fetch, c.request.Topic, c.request.Partition, err)
}

// String names the partition.
func (c *Cursor) String() string { return fmt.Sprintf("%s/%d", c.request.Topic, c.request.Partition) }
