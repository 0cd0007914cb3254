package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"waterwheel/kafka"
	"waterwheel/pipeline"
	"waterwheel/record"
	"waterwheel/sink"
	"waterwheel/timeseries"
)

// corruptTries is how often a record batch may come damaged before its partition stops: a copy may be damaged on its way.
const corruptTries = 3

// startFunc tells where KAFKA_START points to in a partition whose log has these bounds.
type startFunc func(ctx context.Context, topic string, partition int32, b record.Bounds) (int64, error)

// partitionLog is a partition of Kafka for its worker.
type partitionLog struct {
	client    *kafka.Client
	cursor    *kafka.Cursor
	source    timeseries.Source
	isolation kafka.Isolation
	start     startFunc

	corrupt int // fetches in a row that came damaged
}

// Await asks the broker, unless what an earlier answer brought is not given out yet.
func (l *partitionLog) Await(ctx context.Context, offset, most int64) (int64, error) {
	err := l.cursor.Await(ctx, offset, int32(min(most, math.MaxInt32)))
	if err != nil {
		err = l.failed(err)
	}
	return l.cursor.Size(), err
}

// Take translates a batch record by record; their bytes stay where they are.
func (l *partitionLog) Take(offset int64, bytes int) (record.Batch, error) {
	batch, err := l.cursor.Take(offset, kafka.PieceOf(bytes))
	if err != nil {
		return record.Batch{}, l.failed(err)
	}
	l.corrupt = 0
	records := make([]record.Record, 0, len(batch.Records))
	for i := range batch.Records {
		r := &batch.Records[i]
		records = append(records, record.Record{
			Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: r.RawHeaders, Cut: r.Cut,
			Unreadable: r.Unreadable,
		})
	}
	end := batch.HighWatermark
	if l.isolation == kafka.ReadCommitted {
		end = batch.LastStable
	}
	return record.Batch{
		Records: records, Next: batch.Next, End: end, Left: l.cursor.Size(), Release: batch.Release,
		Bytes: batch.Size() + int64(cap(records))*int64(unsafe.Sizeof(record.Record{})),
	}, nil
}

// failed turns an error of Kafka into what the worker acts on.
func (l *partitionLog) failed(err error) error {
	switch kafka.Classify(err) {
	case kafka.OutOfRange:
		return fmt.Errorf("%w: %w", record.ErrOutOfRange, err)
	case kafka.LookAtMetadata:
		return fmt.Errorf("%w: %w", record.ErrTopicGone, err)
	case kafka.StopIfPersists:
		if l.corrupt++; l.corrupt < corruptTries {
			return err
		}
		return &record.StopError{Reason: "corrupt", Detail: err.Error()}
	case kafka.StopPartition, kafka.StopProgram:
		return &record.StopError{Reason: "kafka", Detail: err.Error()}
	}
	return err
}

// Bounds asks for both ends of the log, and where KAFKA_START points to between them.
func (l *partitionLog) Bounds(ctx context.Context) (record.Bounds, error) {
	first, end, err := l.client.Bounds(ctx, l.source.Topic, l.source.Partition)
	if err != nil {
		return record.Bounds{}, err
	}
	b := record.Bounds{First: first, End: end}
	if b.High, err = l.client.HighWatermark(ctx, l.source.Topic, l.source.Partition); err != nil {
		return record.Bounds{}, err
	}
	b.Start, err = l.start(ctx, l.source.Topic, l.source.Partition, b)
	return b, err
}

// Partitions asks for the topic's partitions of now.
func (l *partitionLog) Partitions(ctx context.Context) (int32, error) {
	topics, err := l.client.Topics(ctx, l.source.Topic)
	if err == nil {
		err = topics[0].Err
	}
	if err != nil {
		return 0, l.failed(err)
	}
	return int32(len(topics[0].Partitions)), nil
}

// ports opens what workers read and write.
type ports struct {
	client    *kafka.Client
	stores    map[string]*sink.Store // by topic
	letters   letterTopic
	isolation kafka.Isolation
	group     string
	owner     string
	start     startFunc

	mu   sync.Mutex
	open openPartitions
}

// openPartitions are those whose sessions must be ended when they are opened again.
type openPartitions map[record.Partition]*sink.Partition

// Open ends the session of the partition's former store.
func (p *ports) Open(src timeseries.Source) (pipeline.Log, pipeline.Store) {
	store := p.stores[src.Topic]
	partition := store.Partition(src, p.client.ClusterID(), p.group, p.owner)
	name := record.Partition{Topic: src.Topic, Number: src.Partition}
	p.mu.Lock()
	former := p.open[name]
	p.open[name] = partition
	p.mu.Unlock()
	if former != nil {
		former.Close()
	}
	cursor := p.client.Cursor(src.Topic, src.TopicID, src.Partition)
	return &partitionLog{client: p.client, cursor: cursor, source: src, isolation: p.isolation, start: p.start},
		partition
}

// Letters is the same for all topics: a letter names its own.
func (p *ports) Letters(string) pipeline.Letters { return p.letters }

// TopicID is zero while the topic does not exist.
func (p *ports) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	topics, err := p.client.Topics(ctx, topic)
	switch {
	case err != nil:
		return [16]byte{}, err
	case topics[0].Err == nil:
		return topics[0].ID, nil
	case kafka.Classify(topics[0].Err) == kafka.StopPartition, kafka.Classify(topics[0].Err) == kafka.StopProgram:
		return [16]byte{}, topics[0].Err
	}
	return [16]byte{}, nil
}

// generation is a generation for its workers and committer.
type generation struct{ *kafka.Generation }

// Held is the lease's.
func (g generation) Held() bool { return g.Lease.Held() }

// Commit translates the commits.
func (g generation) Commit(ctx context.Context, commits []record.Commit) ([]error, error) {
	out := make([]kafka.Commit, len(commits))
	for i, c := range commits {
		out[i] = kafka.Commit{Topic: c.Topic, Partition: c.Number, Offset: c.Offset, Metadata: c.Metadata}
	}
	return g.Generation.Commit(ctx, out)
}
