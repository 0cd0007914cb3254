package kafka

import (
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// fetchAnswer is the answer to a fetchMessage. An error code is part of it and no error of the exchange: after one of
// those kafka-go drops the connection.
type fetchAnswer struct {
	response []byte
	code     kafkago.Error
	// throttled is, when not 0, how long a broker whose quota is used up wants to be left alone; it has not read anything.
	throttled time.Duration

	highWatermark, lastStable, logStart int64

	aborted []abortedTransaction
	records []byte // record batches, in the response
}

// ApiKey implements protocol.Message.
func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// errOtherPartition is an answer that holds something that was not asked for.
var errOtherPartition = errors.New("the answer is not about the partition that was asked for")

// parse reads the answer, which must be about the one partition that was asked for.
func (m *fetchMessage) parse(answer []byte) (*fetchAnswer, error) {
	a := &fetchAnswer{response: answer}
	r := reader{rest: answer}
	r.tags() // of the header
	throttle := time.Duration(r.int32()) * time.Millisecond
	if a.code = kafkago.Error(r.int16()); a.code != 0 && r.err == nil {
		return a, nil
	}
	r.int32() // session
	topics := r.compactLen()
	if topics == 0 && throttle > 0 && r.err == nil {
		a.throttled = throttle
		return a, nil
	}
	id, partitions, partition := r.uuid(), r.compactLen(), r.int32()
	if r.err == nil && (topics != 1 || id != m.TopicID || partitions != 1 || partition != m.Partition) {
		return nil, errOtherPartition
	}
	a.code = kafkago.Error(r.int16())
	a.highWatermark, a.lastStable, a.logStart = r.int64(), r.int64(), r.int64()
	for n := r.compactLen(); n > 0 && r.err == nil; n-- {
		a.aborted = append(a.aborted, abortedTransaction{producer: r.int64(), first: r.int64()})
		r.tags()
	}
	r.int32() // preferred replica: there is none without a rack
	a.records = r.compactBytes()
	r.tags() // partition
	r.tags() // topic
	r.tags() // answer
	if r.err != nil {
		return nil, fmt.Errorf("reading a fetch: %w", r.err)
	}
	return a, nil
}
