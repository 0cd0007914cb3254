package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	kafkafetch "github.com/segmentio/kafka-go/protocol/fetch"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

// maxThrottle bounds how long a fetch waits because of one throttled answer.
const maxThrottle = 30 * time.Second

// fetchRequest is a fetch from an offset of a partition. There need not be a record at the offset.
type fetchRequest struct {
	record.Place
	topicID   [16]byte // tells topics apart that had the same name
	maxBytes  int32    // the most bytes the broker shall send
	wait      time.Duration
	isolation Isolation
	resting   bool                  // the last fetch brought nothing
	memory    func(size int) []byte // lends the buffer for the answer. Nil means that nothing is lent.
}

// fetchAnswer is the broker's answer to a fetch.
type fetchAnswer struct {
	code int16
	// throttled is how long the broker wants no fetch, because a quota is used up. It then read nothing. Zero means no
	// throttling.
	throttled time.Duration
	memory    []byte // the buffer of the answer

	highWatermark, lastStable int64

	aborted []recordbatch.Aborted
	records []byte // record batches
}

// fetch asks the partition's leader, which waits until there is something new. While the quota is used up, the broker answers
// with nothing and a time to wait. fetch then asks again after that time.
//
// A partition at rest waits together with others until it has something new.
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

// leader returns the partition's leader as the transport knows it.
func (f *fetchRequest) leader(cluster protocol.Cluster) (protocol.Broker, error) {
	topic := kafkafetch.RequestTopic{Topic: f.Topic, Partitions: []kafkafetch.RequestPartition{{Partition: f.Number}}}
	return (&kafkafetch.Request{Topics: []kafkafetch.RequestTopic{topic}}).Broker(cluster)
}

// noTags ends a part of a request that has no tagged fields.
const noTags = 0

// fetchBody encodes a Fetch v13 request without a fetch session. All its partitions are read with the same isolation. kafka-go's
// own request ends at v11. That version addresses topics by name, so it reads on in another topic of the same name.
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

// partition appends the partition to a request.
func (f *fetchRequest) partition(b []byte, maxBytes int32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(f.Number))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // leader epoch -1: not known
	b = binary.BigEndian.AppendUint64(b, uint64(f.Offset))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // epoch of the last record -1: not known
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64) // log start -1: for followers only
	b = binary.BigEndian.AppendUint32(b, uint32(maxBytes))
	return append(b, noTags)
}

// errOtherPartition is an answer about another partition than the request.
var errOtherPartition = errors.New("the answer is about another partition than the request")

// read decodes the answer, which must be about the one partition of the request.
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

// readPartition reads the fields after the partition's number.
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

// end returns the end of the readable log, as the answer says.
func (f *fetchRequest) end(a *fetchAnswer) int64 {
	if f.isolation == ReadCommitted {
		return a.lastStable
	}
	return a.highWatermark
}

const (
	// answerRest bounds the part of an answer that is not record batches: its fields, and some aborted transactions.
	answerRest = 8 << 10
	// keptAnswer is the largest answer whose memory is used again.
	keptAnswer = 4<<20 + answerRest
)

// answerMemory reuses the buffers of large fetch answers, for all partitions. Without it, each answer allocates a large buffer,
// which Go clears. Unused buffers belong to the garbage collector, so partitions at rest hold nothing. It is safe for concurrent
// use.
//
// A fetch takes a buffer when the head of its answer has come. Only the Log that got the answer gives it back, when the Log has
// dropped the answer and all its batches are released (recordbatch.Set.Free). The buffer of a request that failed or was
// abandoned is therefore never lent again, because a goroutine may still read into it. A batch that is never released keeps its
// buffer. Nothing may keep a record's bytes after the release, because unfolded bytes are overwritten then too. Letters,
// re-drives and the check command therefore keep copies.
type answerMemory struct {
	size int       // size of each buffer in bytes. Zero means that nothing is lent.
	pool sync.Pool // of *[]byte
}

// newAnswerMemory returns the memory for fetches of at most fetchBytes.
func newAnswerMemory(fetchBytes int) *answerMemory {
	size := fetchBytes + answerRest
	if size > keptAnswer {
		size = 0
	}
	return &answerMemory{size: size}
}

// lend returns a buffer for an answer of that size. Nil means that the answer allocates its own. Small answers allocate their
// own, so that no answer holds more than twice its size.
func (m *answerMemory) lend(bytes int) []byte {
	if bytes > m.size || bytes <= m.size/2 {
		return nil
	}
	if b, ok := m.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, m.size)
}

// takeBack takes the buffer of an answer that nothing reads any more. It ignores memory that was not lent.
func (m *answerMemory) takeBack(b []byte) {
	if m.size > 0 && cap(b) == m.size {
		m.pool.Put(&b)
	}
}

// restGathering is the longest time to gather partitions at rest for one request.
const restGathering = 20 * time.Millisecond

// resting lets partitions without new records wait together. Each fetch holds a connection while it waits at the broker.
// Partitions that wait alone therefore hold one connection each, and send two requests a second each. Together they need one
// connection to each broker. Its answer says where each log ends. A partition that has new records fetches them by its own
// request. resting is safe for concurrent use.
type resting struct {
	client *Client
	ctx    context.Context // ends with the client
	stop   context.CancelFunc

	mu      sync.Mutex
	waiting []*rest   // partitions that are in no request yet. The first of them starts the timer of send.
	until   time.Time // common end of the requests under way, so that the next cycle again has one request to each broker
}

// rest is a partition that waits.
type rest struct {
	*fetchRequest
	answered chan restOutcome // receives one answer
}

// restOutcome is the outcome of the request for one partition. If both fields are nil, it is unknown whether there is something
// new.
type restOutcome struct {
	*fetchAnswer
	err error
}

func newResting(c *Client) *resting {
	r := &resting{client: c}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// wait waits until the log has something from the offset on, or until the time of the request is nearly over. In the latter case
// it returns an answer without records. If both results are nil, the partition must fetch by its own request. An error is one
// that its own request would meet too.
//
// News for one partition ends the request of all. The others continue to wait here, because their readers have nothing to do.
func (r *resting) wait(ctx context.Context, f *fetchRequest) (*fetchAnswer, error) {
	for until := time.Now().Add(f.wait - f.wait/8); ; {
		a, err := r.once(ctx, f)
		switch {
		case err != nil || a == nil || f.end(a) > f.Offset:
			return nil, err
		case time.Now().After(until):
			return a, nil
		}
	}
}

// once waits for one request. A nil answer does not say where the log ends.
func (r *resting) once(ctx context.Context, f *fetchRequest) (*fetchAnswer, error) {
	one := &rest{f, make(chan restOutcome, 1)}
	r.mu.Lock()
	if r.waiting = append(r.waiting, one); len(r.waiting) == 1 {
		time.AfterFunc(min(restGathering, f.wait/4), r.send)
	}
	r.mu.Unlock()
	select {
	case a := <-one.answered:
		if a.err != nil {
			return nil, NoAnswer(protocol.Fetch, f.Partition, a.err)
		}
		return a.fetchAnswer, nil
	case <-ctx.Done():
		return nil, NoAnswer(protocol.Fetch, f.Partition, context.Cause(ctx))
	}
}

// send sends requests for all gathered partitions.
func (r *resting) send() {
	r.mu.Lock()
	all := r.waiting
	r.waiting = nil
	now, wait := time.Now(), all[0].wait
	if left := r.until.Sub(now).Truncate(time.Millisecond); left > wait/8 {
		wait = min(wait, left)
	} else {
		r.until = now.Add(wait)
	}
	r.mu.Unlock()
	r.ask(all, wait)
}

// ask sends one request to the leader of the first partition, for all partitions of that leader. It asks for the least that a
// broker sends, the first record batch of one partition. Partitions of other leaders get their own requests at the same time.
func (r *resting) ask(all []*rest, wait time.Duration) {
	const least = 1
	asked := all
	request := &wire.RoutedRequest[map[restKey]*fetchAnswer]{Request: wire.Request[map[restKey]*fetchAnswer]{API: protocol.Fetch, Read: readRest}}
	request.Route = func(cluster protocol.Cluster) (protocol.Broker, error) {
		leader, err := all[0].leader(cluster)
		asked = all[:1:1]
		partitions := []*fetchRequest{all[0].fetchRequest}
		var others []*rest
		for _, one := range all[1:] {
			if of, failed := one.leader(cluster); err == nil && failed == nil && of.ID == leader.ID {
				asked, partitions = append(asked, one), append(partitions, one.fetchRequest)
			} else {
				others = append(others, one)
			}
		}
		if len(others) > 0 {
			go r.ask(others, wait)
		}
		request.Body = fetchBody(partitions, wait, least)
		return leader, err
	}
	var answers map[restKey]*fetchAnswer
	err := r.ctx.Err()
	if err == nil { // a closed client must not open connections, which nothing would close
		answers, err = own[map[restKey]*fetchAnswer](r.ctx, r.client, record.Partition{}, wait, request)
		err = errors.Unwrap(err) // each partition's error names that partition
	}
	for _, one := range asked {
		one.answered <- restOutcome{answers[restKey{one.topicID, one.Number}], err}
	}
}

// restKey is a partition of a topic.
type restKey struct {
	topicID   [16]byte
	partition int32
}

// readRest reads where the logs end. It leaves out partitions with an error code.
func readRest(r *wire.Reader) map[restKey]*fetchAnswer {
	r.Int32() // throttled
	if r.Int16() != 0 {
		return nil
	}
	r.Int32() // session
	answers := map[restKey]*fetchAnswer{}
	for range r.Times(r.CompactLen()) {
		id := r.UUID()
		for range r.Times(r.CompactLen()) {
			number := r.Int32()
			a := &fetchAnswer{}
			a.readPartition(r)
			if a.records, a.aborted = nil, nil; a.code == 0 {
				answers[restKey{id, number}] = a
			}
		}
		r.Tags()
	}
	r.Tags()
	return answers
}
