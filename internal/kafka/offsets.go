package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"waterwheel/internal/kafka/wire"
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

// OpenTransaction returns the first open transaction, beyond which the partition cannot be read. Nil means that none is open. ID
// and Since are unknown without the right DESCRIBE on the transactional id. A broker that does not know these requests answers
// UnsupportedVersion.
func (c *Client) OpenTransaction(ctx context.Context, of record.Partition) (*record.Transaction, error) {
	producers, err := own[producersAnswer](ctx, c, of, 0, producersRequest(of))
	if err == nil {
		err = CodeError(wire.DescribeProducers, of, producers.code)
	}
	if err != nil || len(producers.open) == 0 {
		return nil, err
	}
	open := slices.MinFunc(producers.open, func(a, b record.Transaction) int { return cmp.Compare(a.First, b.First) })
	if open.ID = c.transactionalID(ctx, open.Producer); open.ID == "" {
		return &open, nil
	}
	described, err := own[describedTransaction](ctx, c, record.Partition{}, 0, describeRequest(open.ID))
	if err == nil && described.code == 0 && described.began > 0 {
		open.Since = time.UnixMilli(described.began).UTC()
	}
	return &open, nil
}

// transactionalID asks one broker after the other for a producer's transactional id. Empty means that no broker tells it.
func (c *Client) transactionalID(ctx context.Context, producer int64) string {
	for i, brokers := 0, 1; i < brokers && ctx.Err() == nil; i++ {
		route := func(cluster protocol.Cluster) (protocol.Broker, error) {
			ids := slices.Sorted(maps.Keys(cluster.Brokers))
			if brokers = len(ids); i >= brokers {
				return protocol.Broker{}, kafkago.BrokerNotAvailable
			}
			return cluster.Brokers[ids[i]], nil
		}
		listed, err := own[map[int64]string](ctx, c, record.Partition{}, 0, listRequest(producer, route))
		if id := listed[producer]; err == nil && id != "" {
			return id
		}
	}
	return ""
}

// unsupported is the code of a broker that does not know a request.
const unsupported = int16(kafkago.UnsupportedVersion)

// producersAnswer holds the open transactions of a partition.
type producersAnswer struct {
	code int16
	open []record.Transaction
}

// producersRequest makes a DescribeProducers v0 request about one partition. It goes to the leader.
func producersRequest(of record.Partition) *wire.RoutedRequest[producersAnswer] {
	body := wire.AppendCompactString(wire.AppendCompactLen(nil, 1), of.Topic)
	body = binary.BigEndian.AppendUint32(wire.AppendCompactLen(body, 1), uint32(of.Number))
	const ofTopic, tags = 0, 0
	return &wire.RoutedRequest[producersAnswer]{
		Request: wire.Request[producersAnswer]{
			API: wire.DescribeProducers, Body: append(body, ofTopic, tags), Read: readProducers, Unknown: &producersAnswer{code: unsupported},
		},
		Route: (&fetchRequest{Place: record.Place{Partition: of}}).leader,
	}
}

func readProducers(r *wire.Reader) (a producersAnswer) {
	r.Int32() // throttle time
	for range r.Times(r.CompactLen()) {
		r.CompactBytes() // topic
		for range r.Times(r.CompactLen()) {
			r.Int32() // partition
			a.code = r.Int16()
			r.CompactBytes() // message
			for range r.Times(r.CompactLen()) {
				t := record.Transaction{Producer: r.Int64()}
				r.Int32() // epoch
				r.Int32() // sequence number
				r.Int64() // time of its last record
				r.Int32() // epoch of the coordinator
				t.First = r.Int64()
				r.Tags()
				if t.First >= 0 { // negative means no open transaction
					a.open = append(a.open, t)
				}
			}
			r.Tags()
		}
		r.Tags()
	}
	r.Tags()
	return a
}

// listRequest makes a ListTransactions v0 request for one producer. Each transaction coordinator knows only its own transactions.
func listRequest(producer int64, route func(protocol.Cluster) (protocol.Broker, error)) *wire.RoutedRequest[map[int64]string] {
	body := wire.AppendCompactLen(nil, 0) // no filter by state
	body = binary.BigEndian.AppendUint64(wire.AppendCompactLen(body, 1), uint64(producer))
	const tags = 0
	return &wire.RoutedRequest[map[int64]string]{
		Request: wire.Request[map[int64]string]{
			API: wire.ListTransactions, Body: append(body, tags), Read: readTransactionalIDs, Unknown: &map[int64]string{},
		},
		Route: route,
	}
}

// readTransactionalIDs reads transactional ids by producer. A broker that has none, or may not tell, lists none.
func readTransactionalIDs(r *wire.Reader) map[int64]string {
	ids := map[int64]string{}
	r.Int32() // throttle time
	r.Int16() // code
	for range r.Times(r.CompactLen()) {
		r.CompactBytes() // a state that is not known
	}
	for range r.Times(r.CompactLen()) {
		id, producer := r.CompactString(), r.Int64()
		ids[producer] = id
		r.CompactBytes() // state
		r.Tags()
	}
	r.Tags()
	return ids
}

// describedTransaction holds the start time of a transaction, in milliseconds since 1970.
type describedTransaction struct {
	code  int16
	began int64
}

// describeRequest makes a DescribeTransactions v0 request about one transaction.
func describeRequest(id string) *wire.TransactionRequest[describedTransaction] {
	body := wire.AppendCompactString(wire.AppendCompactLen(nil, 1), id)
	const tags = 0
	return &wire.TransactionRequest[describedTransaction]{ID: id, Request: wire.Request[describedTransaction]{
		API: wire.DescribeTransactions, Body: append(body, tags), Read: readDescribed, Unknown: &describedTransaction{code: unsupported},
	}}
}

func readDescribed(r *wire.Reader) (d describedTransaction) {
	r.Int32() // throttle time
	for range r.Times(r.CompactLen()) {
		d.code = r.Int16()
		r.CompactBytes() // id
		r.CompactBytes() // state
		r.Int32()        // timeout
		d.began = r.Int64()
		r.Int64() // producer
		r.Int16() // epoch
		for range r.Times(r.CompactLen()) {
			r.CompactBytes() // topic
			for range r.Times(r.CompactLen()) {
				r.Int32() // partition
			}
			r.Tags()
		}
		r.Tags()
	}
	r.Tags()
	return d
}
