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
func (c *Client) fetch(ctx context.Context, f *fetchRequest) (*fetchAnswer, error) {
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
	return &wire.RoutedRequest[*fetchAnswer]{
		Request: wire.Request[*fetchAnswer]{API: protocol.Fetch, Body: f.body(), Read: f.read, Memory: f.memory}, Route: f.leader,
	}
}

// leader is the partition's, as the transport knows it.
func (f *fetchRequest) leader(cluster protocol.Cluster) (protocol.Broker, error) {
	topic := kafkafetch.RequestTopic{Topic: f.Topic, Partitions: []kafkafetch.RequestPartition{{Partition: f.Number}}}
	return (&kafkafetch.Request{Topics: []kafkafetch.RequestTopic{topic}}).Broker(cluster)
}

// body is Fetch v13 of one partition without a fetch session. kafka-go's own ends at v11, which addresses topics by name and so
// reads on in another topic of the same name.
func (f *fetchRequest) body() []byte {
	const noTags = 0
	b := make([]byte, 0, 96)
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // replica -1: a consumer
	b = binary.BigEndian.AppendUint32(b, uint32(f.wait.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, 1) // bytes to wait for
	b = binary.BigEndian.AppendUint32(b, uint32(f.maxBytes))
	b = append(b, byte(f.isolation))
	b = binary.BigEndian.AppendUint32(b, 0)              // session
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // its epoch -1: none
	b = wire.AppendCompactLen(b, 1)
	b = append(b, f.topicID[:]...)
	b = wire.AppendCompactLen(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(f.Number))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // leader epoch -1: not known
	b = binary.BigEndian.AppendUint64(b, uint64(f.Offset))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // epoch of the last record -1: not known
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64) // log start -1: for followers only
	b = binary.BigEndian.AppendUint32(b, uint32(f.maxBytes))
	b = append(b, noTags, noTags)       // partition, topic
	b = wire.AppendCompactLen(b, 0)     // topics to forget
	b = wire.AppendCompactString(b, "") // rack
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
	a.code = r.Int16()
	a.highWatermark, a.lastStable = r.Int64(), r.Int64()
	r.Int64() // first offset of the log
	for range r.Times(r.CompactLen()) {
		a.aborted = append(a.aborted, recordbatch.Aborted{Producer: r.Int64(), First: r.Int64()})
		r.Tags()
	}
	r.Int32() // preferred replica: there is none without a rack
	a.records = r.CompactBytes()
	r.Tags() // partition
	r.Tags() // topic
	r.Tags() // answer
	return a
}
