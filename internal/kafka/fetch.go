package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	kafkafetch "github.com/segmentio/kafka-go/protocol/fetch"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// maxThrottle bounds how long one answer of a broker makes a fetch wait.
const maxThrottle = 30 * time.Second

// fetchRequest is a place in a partition to read from. There need not be a record at its offset.
type fetchRequest struct {
	record.Place
	topicID   [16]byte // says which topic of that name is meant
	maxBytes  int32    // the most the broker shall send
	wait      time.Duration
	isolation Isolation
	resting   bool                  // the fetch before brought nothing
	memory    func(size int) []byte // lends what the answer is read into. Nil means that nothing is lent.
}

// fetchAnswer is what a broker sent.
type fetchAnswer struct {
	code int16
	// throttled is, when not 0, how long a broker whose quota is used up wants to be left alone; it has not read anything.
	throttled time.Duration
	memory    []byte // that the answer holds

	highWatermark, lastStable int64

	aborted []recordbatch.Aborted
	records []byte // record batches
}

// fetch asks the partition's leader, waiting when there is nothing new. While the quota is used up a broker answers with
// nothing, and says for how long: then it is asked again.
//
// A partition at rest waits with others, until there is something new for it.
func (c *Client) fetch(ctx context.Context, f *fetchRequest) (*fetchAnswer, error) {
	if f.resting {
		if a, err := c.resting.wait(ctx, f); a != nil || err != nil {
			return a, err
		}
	}
	for {
		answer, err := own[*fetchAnswer](ctx, c, f.Partition, f.wait, f.request())
		switch {
		case err != nil:
			return nil, err
		case answer.throttled == 0:
			return answer, CodeError(protocol.Fetch, f.Partition, answer.code)
		case !Sleep(ctx, min(answer.throttled, maxThrottle)):
			return nil, NoAnswer(protocol.Fetch, f.Partition, context.Cause(ctx))
		}
	}
}

func (f *fetchRequest) request() *wire.RoutedRequest[*fetchAnswer] {
	body := fetchBody([]*fetchRequest{f}, f.wait, f.maxBytes)
	return &wire.RoutedRequest[*fetchAnswer]{
		Request: wire.Request[*fetchAnswer]{API: protocol.Fetch, Body: body, Read: f.read, Memory: f.memory}, Route: f.leader,
	}
}

// leader is the partition's, as the transport knows it.
func (f *fetchRequest) leader(cluster protocol.Cluster) (protocol.Broker, error) {
	topic := kafkafetch.RequestTopic{Topic: f.Topic, Partitions: []kafkafetch.RequestPartition{{Partition: f.Number}}}
	return (&kafkafetch.Request{Topics: []kafkafetch.RequestTopic{topic}}).Broker(cluster)
}

// noTags ends a part of a request that has no tagged fields.
const noTags = 0

// fetchBody is Fetch v13 of partitions that are read with one isolation, without a fetch session. kafka-go's own ends at v11, which
// addresses topics by name and so reads on in another topic of the same name.
func fetchBody(of []*fetchRequest, wait time.Duration, maxBytes int32) []byte {
	var topics [][16]byte
	in := map[[16]byte][]*fetchRequest{}
	for _, f := range of {
		if in[f.topicID] == nil {
			topics = append(topics, f.topicID)
		}
		in[f.topicID] = append(in[f.topicID], f)
	}
	b := make([]byte, 0, 64+40*len(of))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // replica -1: a consumer
	b = binary.BigEndian.AppendUint32(b, uint32(wait.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, 1) // bytes to wait for
	b = binary.BigEndian.AppendUint32(b, uint32(maxBytes))
	b = append(b, byte(of[0].isolation))
	b = binary.BigEndian.AppendUint32(b, 0)              // session
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // its epoch -1: none
	b = wire.AppendCompactLen(b, len(topics))
	for _, id := range topics {
		b = append(b, id[:]...)
		b = wire.AppendCompactLen(b, len(in[id]))
		for _, f := range in[id] {
			b = f.partition(b, maxBytes)
		}
		b = append(b, noTags)
	}
	b = wire.AppendCompactLen(b, 0)     // topics to forget
	b = wire.AppendCompactString(b, "") // rack
	return append(b, noTags)
}

// partition is the partition in a request.
func (f *fetchRequest) partition(b []byte, maxBytes int32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(f.Number))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // leader epoch -1: not known
	b = binary.BigEndian.AppendUint64(b, uint64(f.Offset))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // epoch of the last record -1: not known
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64) // log start -1: for followers only
	b = binary.BigEndian.AppendUint32(b, uint32(maxBytes))
	return append(b, noTags)
}

// errOtherPartition is an answer that holds something that was not asked for.
var errOtherPartition = errors.New("the answer is not about the partition that was asked for")

// read takes the answer apart, which must be about the one partition that was asked for.
func (f *fetchRequest) read(r *wire.Reader) *fetchAnswer {
	a := &fetchAnswer{memory: r.Memory()}
	throttle := time.Duration(r.Int32()) * time.Millisecond
	if a.code = r.Int16(); a.code != 0 {
		return a
	}
	r.Int32() // session
	topics := r.CompactLen()
	if topics == 0 && throttle > 0 {
		a.throttled = throttle
		return a
	}
	id, partitions, partition := r.UUID(), r.CompactLen(), r.Int32()
	if topics != 1 || id != f.topicID || partitions != 1 || partition != f.Number {
		r.Fail(errOtherPartition)
	}
	a.readPartition(r)
	r.Tags() // topic
	r.Tags() // answer
	return a
}

// readPartition reads what follows the number of the partition.
func (a *fetchAnswer) readPartition(r *wire.Reader) {
	a.code = r.Int16()
	a.highWatermark, a.lastStable = r.Int64(), r.Int64()
	r.Int64() // first offset of the log
	for range r.Times(r.CompactLen()) {
		a.aborted = append(a.aborted, recordbatch.Aborted{Producer: r.Int64(), First: r.Int64()})
		r.Tags()
	}
	r.Int32() // preferred replica: there is none without a rack
	a.records = r.CompactBytes()
	r.Tags()
}

// end is the end of what may be read, as an answer says.
func (f *fetchRequest) end(a *fetchAnswer) int64 {
	if f.isolation == ReadCommitted {
		return a.lastStable
	}
	return a.highWatermark
}
