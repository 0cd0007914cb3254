package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"waterwheel/e2e/check"
	"waterwheel/e2e/harness"
)

// Topic is a topic that holds a load.
type Topic struct {
	Name string
	Load Load
	// Bytes is the size of all values, before compression.
	Bytes int64
	// Ends are the ends of the log, by partition.
	Ends []int64
}

// Fill creates a topic and writes a load into it. The caller deletes the topic.
func Fill(ctx context.Context, servers *harness.Servers, l Load) (Topic, error) {
	t := Topic{Name: fmt.Sprintf("bench-%x", time.Now().UnixNano()), Load: l}
	settings := []string{"retention.ms", "-1", "max.message.bytes", fmt.Sprint(2 * maxEventBytes)}
	if err := servers.CreateTopic(ctx, t.Name, l.Partitions, settings...); err != nil {
		return Topic{}, err
	}
	err := t.produce(ctx, servers.Brokers)
	if err == nil {
		err = t.measure(ctx, servers.Brokers)
	}
	if err != nil {
		return Topic{}, errors.Join(fmt.Errorf("filling topic %s: %w", t.Name, err), servers.DeleteTopics(context.WithoutCancel(ctx), t.Name))
	}
	return t, nil
}

// produce writes all records and returns when they are acknowledged.
func (t *Topic) produce(ctx context.Context, brokers string) error {
	producer, err := newProducer(brokers, t.Name, t.Load.Codec)
	if err != nil {
		return err
	}
	defer producer.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	maker := NewMaker(t.Load)
	var fail sync.Once
	acknowledged := func(_ *kgo.Record, err error) {
		if err != nil {
			fail.Do(func() { cancel(err) })
		}
	}
	for i := 0; i < t.Load.Records && ctx.Err() == nil; i++ {
		series := maker.Series(i)
		value := maker.Append(make([]byte, 0, max(t.Load.EventBytes, 192)), i)
		t.Bytes += int64(len(value))
		producer.Produce(ctx, &kgo.Record{Partition: maker.Partition(series), Key: []byte(sensor(series)), Value: value}, acknowledged)
	}
	err = producer.Flush(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// These bound the records that wait to be sent. They allow full batches to all partitions.
const (
	maxBuffered      = 100_000
	maxBufferedBytes = 128 << 20
)

// newProducer returns a producer that writes each record to the partition it names. The caller closes it.
func newProducer(brokers, topic, codec string) (*kgo.Client, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(brokers, ",")...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(20*time.Millisecond),
		kgo.MaxBufferedRecords(maxBuffered), kgo.MaxBufferedBytes(maxBufferedBytes),
	)
	if err != nil {
		return nil, fmt.Errorf("making a producer to %s: %w", topic, err)
	}
	return client, nil
}

// measure reads the ends of the log and compares them with the number of written records.
func (t *Topic) measure(ctx context.Context, brokers string) error {
	kafka, err := check.DialKafka(brokers)
	if err != nil {
		return err
	}
	defer kafka.Close()
	if t.Ends, err = kafka.Ends(ctx, check.Topic{Name: t.Name, Partitions: int32(t.Load.Partitions)}); err != nil {
		return err
	}
	sum := int64(0)
	for _, end := range t.Ends {
		sum += end
	}
	if sum != int64(t.Load.Records) {
		return fmt.Errorf("the partitions have %d records, not %d", sum, t.Load.Records)
	}
	return nil
}
