package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// Sizes of what is sent, in bytes.
const (
	// chunkBytes bounds one request of several letters, well under the broker's default of 1 MiB.
	chunkBytes = 512 << 10
	// longestLetter is the longest letter that is tried uncut: brokers cut a connection that sends more than 100 MiB.
	longestLetter = 64 << 20
	// letterOverhead bounds what Kafka's record format and our headers add to a letter's key, value and own headers.
	letterOverhead = 2 << 10
)

// latestTimestamp is the last time, in milliseconds, that kafka-go writes as it is (it counts nanoseconds in an int64, and
// takes 0 for the current time).
const latestTimestamp = math.MaxInt64 / 1_000_000

// longestCut is the first length tried for a letter that its topic does not take whole: it fits the broker's default limit.
// Each further one is half as long, and the last is that of a letter with nothing of its record.
const longestCut = 1000 << 10

// chunks splits the letters of one partition into requests. A letter longer than chunkBytes is alone in its own.
func chunks(letters []Letter, indexes []int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		start, bytes := 0, 0
		for end, i := range indexes {
			n := size(&letters[i])
			if end > start && bytes+n > chunkBytes {
				if !yield(indexes[start:end]) {
					return
				}
				start, bytes = end, 0
			}
			bytes += n
		}
		if start < len(indexes) {
			yield(indexes[start:])
		}
	}
}

// size bounds the bytes a letter takes in a request.
func size(l *Letter) int {
	n := letterOverhead + len(l.Key) + len(l.Value)
	for _, h := range l.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

// writeChunk writes the letters of one request. When the broker refuses the request for what one of them is, each is
// written alone. After an error it returns the letters that are not acknowledged: from one on, those behind it are not tried.
func (p *Producer) writeChunk(ctx context.Context, topic string, partition int, letters []Letter, chunk []int) ([]int, error) {
	if len(chunk) > 1 {
		messages := make([]kafka.Message, len(chunk))
		for n, i := range chunk {
			messages[n] = p.message(&letters[i])
		}
		if err := p.send(ctx, topic, partition, messages...); !refusesLetter(err) {
			return chunk, err
		}
	}
	for n, i := range chunk {
		if err := p.writeAlone(ctx, topic, partition, letters[i]); err != nil {
			return chunk[n:], err
		}
	}
	return nil, nil
}

// writeAlone writes one letter, changed as far as its topic demands.
func (p *Producer) writeAlone(ctx context.Context, topic string, partition int, letter Letter) error {
	err := error(kafka.MessageSizeTooLarge)
	if size(&letter) <= longestLetter {
		err = p.sendOne(ctx, topic, partition, &letter)
	}
	for limit := longestCut; tooLarge(err) && limit >= letterOverhead/2; limit /= 2 {
		shorter := cut(letter, max(limit, letterOverhead))
		err = p.sendOne(ctx, topic, partition, &shorter)
	}
	if refusesLetter(err) {
		return &UntakenError{Topic: topic, Err: err}
	}
	return err
}

// sendOne sends one letter, restamped where its topic refuses the record's time as too far from now.
func (p *Producer) sendOne(ctx context.Context, topic string, partition int, letter *Letter) error {
	message := p.message(letter)
	err := p.send(ctx, topic, partition, message)
	if !errors.Is(err, kafka.InvalidTimestamp) {
		return err
	}
	message.Time = p.now()
	return p.send(ctx, topic, partition, message)
}

// cut shortens a letter to about limit bytes. The record's headers go when they and the key are longer, then the key, and then
// the value's end.
func cut(l Letter, limit int) Letter {
	var lost []string
	if l.Cut != "" {
		lost = append(lost, l.Cut)
	}
	rest := func() int { return size(&l) - len(l.Value) }
	if rest() > limit && len(l.Headers) > 0 {
		lost = append(lost, fmt.Sprintf("%d headers", len(l.Headers)))
		l.Headers = nil
	}
	if rest() > limit && l.Key != nil {
		lost = append(lost, fmt.Sprintf("key of %d bytes", len(l.Key)))
		l.Key = nil
	}
	if kept := max(0, limit-rest()); kept < len(l.Value) {
		lost = append(lost, fmt.Sprintf("value of %d bytes", len(l.Value)))
		l.Value = l.Value[:kept]
	}
	l.Cut = strings.Join(lost, ", ")
	return l
}

// message makes the Kafka record of a letter. It shares no bytes with it: a request that was abandoned at its context's
// end may still be encoded.
func (p *Producer) message(l *Letter) kafka.Message {
	m := kafka.Message{
		Time:    time.UnixMilli(l.Timestamp),
		Key:     bytes.Clone(l.Key),
		Value:   bytes.Clone(l.Value),
		Headers: envelope(l, p.options.GroupID),
	}
	if l.Timestamp <= 0 || l.Timestamp > latestTimestamp {
		m.Time = p.now()
	}
	return m
}

// send writes records in one request and waits until all in-sync replicas have them.
func (p *Producer) send(ctx context.Context, topic string, partition int, messages ...kafka.Message) error {
	records := make([]kafka.Record, len(messages))
	for i, m := range messages {
		records[i] = kafka.Record{Time: m.Time, Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Value), Headers: m.Headers}
	}
	if err := produceRecords(ctx, p.client, p.options.Timeout, Place{topic, int32(partition)}, records); err != nil {
		return fmt.Errorf("writing to dead-letter topic %q, partition %d: %w", topic, partition, err)
	}
	return nil
}

// produceRecords writes records in one request, which is one record batch, and waits until all in-sync replicas have them.
func produceRecords(ctx context.Context, client *kafka.Client, timeout time.Duration, to Place, records []kafka.Record) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := client.Produce(ctx, &kafka.ProduceRequest{
		Topic:        to.Topic,
		Partition:    int(to.Partition),
		RequiredAcks: kafka.RequireAll,
		Records:      kafka.NewRecordReader(records...),
	})
	if err != nil {
		return err
	}
	return response.Error
}

// refusesLetter tells whether the broker refused a request for the content of a letter.
// INVALID_RECORD is what a compacted topic says to a record without a key.
func refusesLetter(err error) bool {
	return tooLarge(err) || errors.Is(err, kafka.InvalidTimestamp) || errors.Is(err, kafka.InvalidRecord)
}

// tooLarge tells whether a letter exceeds the topic's longest record or the log's segment.
func tooLarge(err error) bool {
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)
}
