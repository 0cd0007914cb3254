package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Record is a record of a topic, as the log holds it.
type Record struct {
	Partition  int32
	Offset     int64
	Timestamp  int64 // milliseconds since 1970
	Key, Value []byte
	Headers    map[string]string
}

// Kafka reads topics and offsets without being a member of any group.
type Kafka struct {
	brokers []string
	client  *kgo.Client
	// Admin is a client for an operator's requests.
	Admin *kadm.Client
}

// DialKafka returns a reader of the cluster at the given addresses, comma-separated. The caller closes it.
func DialKafka(brokers string) (*Kafka, error) {
	k := &Kafka{brokers: strings.Split(brokers, ",")}
	client, err := kgo.NewClient(k.options()...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	k.client, k.Admin = client, kadm.NewClient(client)
	return k, nil
}

// options returns the options of every client. The versions are limited, so that requests identify topics by name.
// Metadata is never old, because topics are deleted, created and changed.
func (k *Kafka) options() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(k.brokers...), kgo.MaxVersions(kversion.V3_6_0()), kgo.MetadataMinAge(20 * time.Millisecond)}
}

// Close closes the connections.
func (k *Kafka) Close() { k.client.Close() }

// Topic is the metadata of a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32
}

// Topic returns the metadata of a topic. It returns false if the topic does not exist.
func (k *Kafka) Topic(ctx context.Context, name string) (Topic, bool, error) {
	found, err := k.Admin.ListTopics(ctx, name)
	if err == nil {
		err = found[name].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return Topic{}, false, nil
	}
	if err != nil {
		return Topic{}, false, fmt.Errorf("asking for topic %s: %w", name, err)
	}
	return Topic{Name: name, ID: found[name].ID, Partitions: int32(len(found[name].Partitions))}, true, nil
}

// offsets asks for an offset of each partition's log.
func (k *Kafka) offsets(ctx context.Context, t Topic, list func(context.Context, ...string) (kadm.ListedOffsets, error)) ([]int64, error) {
	listed, err := list(ctx, t.Name)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, fmt.Errorf("asking for the offsets of %s: %w", t.Name, err)
	}
	offsets := make([]int64, t.Partitions)
	for p := range offsets {
		o, ok := listed.Lookup(t.Name, int32(p))
		if !ok {
			return nil, fmt.Errorf("asking for the offsets of %s: no answer about partition %d", t.Name, p)
		}
		offsets[p] = o.Offset
	}
	return offsets, nil
}

// Ends returns the end of each partition's log, which is its last stable offset.
func (k *Kafka) Ends(ctx context.Context, t Topic) ([]int64, error) {
	return k.offsets(ctx, t, k.Admin.ListCommittedOffsets)
}

// Committed returns a group's committed offset of each partition, and the metadata of the commits. An offset of -1 means no
// commit.
func (k *Kafka) Committed(ctx context.Context, group string, t Topic) ([]int64, []string, error) {
	found, err := k.Admin.FetchOffsets(ctx, group)
	if err = errors.Join(err, found.Error()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // such a group has not committed yet
		return nil, nil, fmt.Errorf("asking for the commits of group %s: %w", group, err)
	}
	offsets, metadata := slices.Repeat([]int64{-1}, int(t.Partitions)), make([]string, t.Partitions)
	for p := range offsets {
		if o, ok := found.Lookup(t.Name, int32(p)); ok {
			offsets[p], metadata[p] = o.At, o.Metadata
		}
	}
	return offsets, metadata, nil
}

// Read reads a topic from its start to its present end.
func (k *Kafka) Read(ctx context.Context, t Topic) ([]Record, error) {
	starts, err := k.offsets(ctx, t, k.Admin.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	ends, err := k.Ends(ctx, t)
	if err != nil {
		return nil, err
	}
	from := map[int32]kgo.Offset{}
	for p := range t.Partitions {
		if starts[p] < ends[p] {
			from[p] = kgo.NewOffset().At(starts[p])
		}
	}
	if len(from) == 0 {
		return nil, nil
	}
	reader, err := kgo.NewClient(append(k.options(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.Name: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())...) // they show how far a log that ends in control records has been read
	if err != nil {
		return nil, fmt.Errorf("making a reader of %s: %w", t.Name, err)
	}
	defer reader.Close()

	var records []Record
	for len(from) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading %s: %d partitions are not at their end: %w", t.Name, len(from), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition]-1 {
				delete(from, r.Partition)
			}
			if r.Offset < ends[r.Partition] && !r.Attrs.IsControl() {
				records = append(records, recordOf(r))
			}
		})
	}
	return records, nil
}

func recordOf(r *kgo.Record) Record {
	headers := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	return Record{
		Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
		Key: r.Key, Value: r.Value, Headers: headers,
	}
}

// AwaitCommitted waits until a group has committed the end of every partition's log.
func (k *Kafka) AwaitCommitted(ctx context.Context, group string, t Topic) error {
	var committed, ends []int64
	for {
		var err error
		if ends, err = k.Ends(ctx, t); err == nil {
			committed, _, err = k.Committed(ctx, group, t)
		}
		if err == nil && slices.Equal(committed, ends) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for group %s to commit all of %s: it has %v of %v", group, t.Name, committed, ends), err, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
