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

// restGathering is how long partitions at rest are gathered for one request, at most.
const restGathering = 20 * time.Millisecond

// resting lets partitions whose logs have nothing new wait for records together. Each fetch takes a connection while it waits at the
// broker, so partitions that wait alone take as many connections, and each two requests a second. Together they take one of each
// broker, which says of each partition where its log ends. A partition that has new records fetches them by a request of its own.
// Safe for concurrent use.
type resting struct {
	client *Client
	ctx    context.Context // ends with the client
	stop   context.CancelFunc

	mu      sync.Mutex
	waiting []*rest   // that are in no request yet: the first of them lets one be sent
	until   time.Time // when the requests under way end. All end together, so that the next cycle has one request to each broker again.
}

// rest is a partition that waits.
type rest struct {
	*fetchRequest
	answered chan restOutcome // takes a single answer
}

// restOutcome is what became of the request. Neither an answer nor an error means that it is not known whether there is something new.
type restOutcome struct {
	*fetchAnswer
	err error
}

func newResting(c *Client) *resting {
	r := &resting{client: c}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// wait waits until the log has something from the offset on, or the time of the request is nearly over. It returns an answer without
// records. Nil means that a request of the partition's own has to find out. An error is one that such a request would have met as well.
//
// What is new for one partition ends the request of all. The others go on to wait here: whoever reads them has nothing to do.
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

// once waits for one request. Nil means that its answer does not say where the log ends.
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

// send asks for all that have been gathered.
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

// ask sends one request to the leader of the first partition, for all that it leads, and for as little as a broker sends: the first
// record batch of one partition. The others are asked for meanwhile.
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
	if err == nil { // else a closed client would open connections again, which nothing closes
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

// readRest reads where the logs end. A partition that the broker has something else to say of is left out.
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
