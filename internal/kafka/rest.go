package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"waterwheel/internal/kafka/wire"
	"waterwheel/internal/record"
)

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
